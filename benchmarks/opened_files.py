"""`make bench-opened-files`: how often one `snakemake` of two native runs opens the files of its study.

Counted by strace over all processes: the files of the site and the study, and those of the first run. Exits
with 1 where a file is opened more often than its bar.
"""

import json
import re
import sys
import tempfile
from pathlib import Path

from workspace import BIN, Workspace

PROJECT = Path(__file__).parents[1]
BARS = {"site.yaml": 2, "study.json": 2, "run.json": 3, "job.json": 8}
OF_A_RUN = ("run.json", "job.json")
EXPERIMENT = {
    "runtime": "native",
    "launcher": "plain",
    "command": "python3 -c \"print('rate 5.0')\"",
    "throughput": r"rate (\S+)",
    "scale": {"nodes": [1], "repeats": 2},
    "resources": {"time": "5m"},
}
OPENED = re.compile(r'\bopen(?:at2?)?\([^"]*"([^"]+)".* = \d+')


def main() -> int:
    """Print the table, and return 1 where a bar is exceeded."""
    opened = opened_files()
    print("file        opened  bar")
    found = {name: times_opened(opened, name) for name in BARS}
    for name, times in found.items():
        print(f"{name:10}  {times:6}  {BARS[name]:3}")
    print(json.dumps({"opened": found, "bars": BARS}))
    return int(any(times > BARS[name] for name, times in found.items()))


def opened_files() -> list[str]:
    """Return the path of each file that is opened, as the calls name it."""
    with tempfile.TemporaryDirectory(prefix="argosy-bench-") as scratch:
        folder = Path(scratch)
        workspace = Workspace.copy(PROJECT, folder / "project", folder / "store")
        workspace.configure({"digits": EXPERIMENT})
        calls = "trace=open,openat,openat2"
        options = ["-f", "-qq", "-s", "500", "-e", calls, "-o", folder / "trace"]
        status, output = workspace.run("strace", *options, BIN / "snakemake")
        if status:
            raise SystemExit(output)
        return OPENED.findall((folder / "trace").read_text(errors="replace"))


def times_opened(paths: list[str], name: str) -> int:
    """Return how often a file of the study, or of its first run, was opened."""
    return sum(
        path.rpartition("/")[2] == name and (name not in OF_A_RUN or "repeat1/" in path)
        for path in paths
    )


if __name__ == "__main__":
    sys.exit(main())
