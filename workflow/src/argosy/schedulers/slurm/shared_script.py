"""Writes and reads the script of a shared job: each run's own script runs in turn on the same nodes.

The script names its runs, so the queue's copy of it identifies the runs of a job that an earlier driver
submitted.
"""

import math
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import argosy
from argosy.run_folder.folder import SCRIPT
from argosy.run_folder.job_file import script_digest
from argosy.schedulers.base import BETWEEN_RUNS_S, job_name
from argosy.schedulers.batch_system import find_batch_system
from argosy.schedulers.script_template import ScriptTemplate
from argosy.schedulers.slurm.options import ScriptOptions
from argosy_common.files import write_text
from argosy_common.reading import site_of

TEMPLATE = "allocation.sbatch.j2"

MEASURE = re.compile(r"^measure (.+) ([0-9a-f]{64})$", re.MULTILINE)


def write_script(folder: Path, run_dirs: Sequence[Path]) -> None:
    """Write the script of a job for these runs into its folder."""
    (folder / "logs").mkdir(mode=0o700, parents=True, exist_ok=True)
    write_text(folder / SCRIPT, script_text(folder, run_dirs))


def script_text(folder: Path, run_dirs: Sequence[Path]) -> str:
    """Return the script: the options of the largest run, the total time, and each run's own script.

    Raises:
        ArgosyError: with the template's name, if it is not usable.
    """
    asked = [ScriptOptions(run_dir) for run_dir in run_dirs]
    largest = max((each.values for each in asked), key=_size)
    minutes = sum(each.minutes + BETWEEN_RUNS_S / 60 for each in asked)
    options: Mapping[str, str | None] = {
        **largest,
        "job-name": job_name(folder),
        "chdir": str(folder),
        "output": f"{str(folder).replace('%', '%%')}/logs/scheduler-%j.log",
        "time": f"{minutes:.0f}" if math.isfinite(minutes) else "UNLIMITED",
    }
    site = site_of(folder)
    system = find_batch_system("slurm")
    template = ScriptTemplate(system, site.parents[1] / "slurm" / site.name, TEMPLATE)
    return template.render(
        {
            "options": options,
            "experiment": folder.parent.name,
            "folder": folder,
            "verdict": Path(argosy.__file__).parent / "runtime" / "verdict.py",
            "python": sys.executable,
            "runs": {run_dir: script_digest(run_dir / SCRIPT) for run_dir in run_dirs},
        }
    )


def _size(options: Mapping[str, str | None]) -> tuple[int, int]:
    nodes, cpus = (options.get(name) or "1" for name in ("nodes", "cpus-per-task"))
    return int(nodes), int(cpus)


def runs_of(script: str) -> dict[Path, str]:
    """Return the runs in a job's script, each with the digest of its own script."""
    found = {}
    for quoted, digest in MEASURE.findall(script):
        words = shlex.split(quoted)
        if len(words) == 1:
            found[Path(words[0])] = digest
    return found
