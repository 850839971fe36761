"""What making tables takes of memory, in a process of its own."""

import subprocess
import sys
from pathlib import Path

# Of this program alone: what getrusage says begins with what the process that started it has taken.
PROGRAM = """
import re, sys
from pathlib import Path
from argosy.results import collect
collect(Path(sys.argv[1]), Path(sys.argv[1]) / "tables")
print(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])
"""


def peak_of_collect(site: Path) -> int:
    """Make the tables of a site; return the most bytes of memory that this has taken."""
    command = [sys.executable, "-c", PROGRAM, str(site)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(done.stdout) * 1024
