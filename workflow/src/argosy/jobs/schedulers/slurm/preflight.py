"""Asks Slurm whether it would take a study's scripts, before any of them is submitted."""

import math
import re
from collections.abc import Iterable
from pathlib import Path

from argosy.errors import ArgosyError
from argosy.jobs.schedulers.slurm import spans
from argosy.jobs.schedulers.slurm.commands import MissingError, SlurmError, call
from argosy.jobs.schedulers.slurm.refusals import explain

OF_ONE_RUN = ("--job-name=", "--chdir=", "--output=")


def check_scripts(scripts: Iterable[Path]) -> str:
    """Test each shape of job once, by `sbatch --test-only`, and return what Slurm said of each.

    Runs of one point differ in nothing that Slurm looks at, so a study costs a few questions.

    Raises:
        ArgosyError: naming the key to change, with Slurm's words.
    """
    shapes: dict[tuple[str, ...], Path] = {}
    for script in scripts:
        shapes.setdefault(_shape(script), script.absolute())
    limits = _partition_limits(next(iter(shapes.values()), Path()))
    for shape, script in shapes.items():
        _check_limits(shape, script, limits)
        _ask(script, "sbatch", "--test-only", str(script))
    return "".join(f"{script}: accepted\n" for script in shapes.values())


def _shape(script: Path) -> tuple[str, ...]:
    options = (
        line.removeprefix("#SBATCH ")
        for line in script.read_text(encoding="utf-8").splitlines()
        if line.startswith("#SBATCH ")
    )
    return tuple(option for option in options if not option.startswith(OF_ONE_RUN))


def _ask(script: Path, *command: str) -> str:
    """The answer of a command of Slurm's; where it is a no, the key to change and Slurm's words."""
    try:
        return call(*command, cwd=script.parent)
    except MissingError as problem:
        site = script.parts[-4]
        raise ArgosyError(
            f"slurm/{site}/site.yaml: scheduler: it is slurm, but {problem}; run on a login node of "
            "the cluster, or choose the site `local`"
        ) from None
    except SlurmError as problem:
        raise ArgosyError(explain(script.parent, str(problem))) from None


def _partition_limits(script: Path) -> dict[str, tuple[float, float]]:
    """The longest time in minutes and the most nodes of a job in each partition.

    At many sites sbatch takes what the partition never runs, and the job waits for ever
    (EnforcePartLimits=NO in slurm.conf).
    """
    limits = {}
    for line in _ask(script, "sinfo", "--noheader", "--format=%R|%l|%s").splitlines():
        name, time, size = line.split("|")
        span = spans.seconds(time)
        limits[name] = (math.inf if span is None else span / 60, _most(size))
    return limits


def _most(size: str) -> float:
    """The larger of `1-2`, or infinity for `1-infinite`."""
    most = size.rpartition("-")[2]
    return int(most) if most.isdigit() else math.inf


def _check_limits(
    shape: tuple[str, ...], script: Path, limits: dict[str, tuple[float, float]]
) -> None:
    options = dict(re.findall(r"--([a-z-]+)=(\S+)", " ".join(shape)))
    time, nodes = limits.get(options.get("partition", ""), (math.inf, math.inf))
    if float(options.get("time", 0)) > time:
        said = f"the partition {options['partition']} has a time limit of {time:.0f} minutes"
        raise ArgosyError(explain(script.parent, said))
    if int(options.get("nodes", 0)) > nodes:
        said = f"too many nodes for the partition {options['partition']}: {nodes:.0f} at most"
        raise ArgosyError(explain(script.parent, said))
