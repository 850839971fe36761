"""Submitting a script to the user's cluster, and finding its job when sbatch's answer is lost."""

import os
import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from argosy.schedulers.base import Listed, job_name
from argosy.schedulers.slurm.answers import read_config, read_submitted
from argosy.schedulers.slurm.commands import NoAnswerError, Patience, SlurmError, call, shown
from argosy.schedulers.slurm.options import ScriptOptions
from argosy_common.errors import ArgosyError
from argosy_common.reading import read_text

CONFIG = ("scontrol", "show", "config")
_VARIABLE = re.compile(r"(?:SLURM|SBATCH|SALLOC|SRUN|SQUEUE|SACCT|SINFO|SCANCEL|SCONTROL)_CLUSTERS")
_OPTION = re.compile(r"^#SBATCH\s(?:.*\s)?(?:--cluster|-M).*$", re.MULTILINE)
_REMEDY = "work on a login node of that cluster, or set SLURM_CONF to its slurm.conf"


def cluster_name(patience: Patience) -> str:
    """Return the name of the cluster of Slurm's commands. Raises SlurmError."""
    return read_config(patience.ask(*CONFIG)).get("ClusterName", "")


def check_variables() -> None:
    """Refuse variables that direct the user's Slurm commands to another cluster.

    Raises:
        ArgosyError: with the variable's name.
    """
    named = {
        name: value for name, value in os.environ.items() if _VARIABLE.fullmatch(name) and value
    }
    if not named:
        return
    try:
        here = cluster_name(Patience())
    except SlurmError:
        here = ""
    for name, value in named.items():
        if value != here:
            than = f", and Argosy's jobs go to {here}" if here else ""
            raise ArgosyError(
                f"{name} is {value}{than}: Argosy works with one cluster",
                f"unset {name}; {_REMEDY}",
            )


def check_script(options: ScriptOptions) -> None:
    """Refuse a script that a site's template sends to another cluster.

    Raises:
        ArgosyError: with the template's name.
    """
    if found := _OPTION.search(options.text):
        template = options.site_file.replace("site.yaml", "job.sbatch.j2")
        raise ArgosyError(
            f"{template}: it writes `{found[0]}`: Argosy works with one cluster",
            f"remove that line; {_REMEDY}",
        )


def check_cluster(job_id: str, cluster: str) -> None:
    """Cancel and refuse a job that went to another cluster, where it would not be found again.

    Raises:
        SlurmError: with the other cluster.
    """
    try:
        here = cluster_name(Patience())
    except SlurmError:
        # Its number is known; the next poll will tell.
        return
    if cluster == here:
        return
    call("scancel", f"--clusters={cluster}", job_id)
    raise SlurmError(
        f"sbatch sent the job {job_id} to the cluster {cluster}, but Argosy works with {here}: "
        f"the job is cancelled;  {_REMEDY}"
    )


T = TypeVar("T")

LOOKS = 1
"""Polls that may not show a job yet after an unanswered submission."""


class LostError(NoAnswerError):
    """Slurm took the script, but the answer lacks the job's number."""


def submit(script: Path, folder: Path, exclude: str = "") -> str:
    """Submit a script from `folder`, and return the job's number.

    Args:
        exclude: nodes that the job is not to have, in place of those that the script names.

    Raises:
        LostError: there is a job, whose number is not known: `find_new` finds it in the queue.
        NoAnswerError: there may be such a job.
        SlurmError: there is none.
    """
    try:
        more = [f"--exclude={exclude}"] if exclude else []
        said = call("sbatch", "--parsable", *more, script, cwd=folder)
    except SlurmError as problem:
        # A wrapper may fail after Slurm took the script.
        said = problem.printed
        if read_submitted(said) is None:
            raise
    found = read_submitted(said)
    if found is None:
        raise LostError(f"sbatch accepted the script but named no job; it printed: {shown(said)}")
    job_id, cluster = found
    if cluster:
        check_cluster(job_id, cluster)
    return job_id


def find_new(
    folder: Path, name: str, before: Collection[str], listed: Iterable[Listed]
) -> Listed | None:
    """Return the newest job of that name from `folder` that is not among `before`."""
    here = os.path.realpath(folder)
    found = [
        job
        for job in listed
        if job.name == name and job.job_id not in before and os.path.realpath(job.work_dir) == here
    ]
    return max(found, key=lambda job: int(job.job_id), default=None)


def script_of(job_id: str, folder: Path, patience: Patience) -> str:
    """Return Slurm's own copy of the script of a job of `folder`.

    Slurm writes it into a file, since standard output may hold a site's greetings.

    Raises:
        SlurmError: as `call`.
    """
    with TemporaryDirectory(prefix=".script-", dir=folder) as aside:
        copy = Path(aside) / "batch_script"
        said = patience.ask("scontrol", "write", "batch_script", job_id, str(copy))
        try:
            return read_text(copy, folder).rstrip("\n") + "\n"
        except OSError:
            raise NoAnswerError(
                f"scontrol wrote no copy of the script of job {job_id}; it printed: {shown(said)}"
            ) from None


@dataclass(frozen=True)
class _Lost:
    """A submission without an answer: the queue before it, and the problem."""

    before: frozenset[str]
    problem: NoAnswerError
    looks: int = 0


class LostJobs:
    """Remembers unanswered submissions, so that no script is submitted twice."""

    def __init__(self) -> None:
        self._lost: dict[Path, _Lost] = {}

    def __bool__(self) -> bool:
        return bool(self._lost)

    def guarded(self, folder: Path, listed: Iterable[Listed], submit_it: Callable[[], T]) -> T:
        """Submit the script of `folder`; `listed` is the queue before it. Raises as `submit`."""
        try:
            return submit_it()
        except NoAnswerError as problem:
            before = frozenset(job.job_id for job in listed)
            self._lost[folder] = _Lost(before, problem)
            raise

    def find(self, folder: Path, listed: Iterable[Listed]) -> Listed | None:
        """Return the job of an unanswered submission, even if it has ended; None without one.

        Raises:
            NoAnswerError: if the job may still appear.
            SlurmError: if Slurm took it and it never appeared.
        """
        lost = self._lost.get(folder)
        if lost is None:
            return None
        found = find_new(folder, job_name(folder), lost.before, listed)
        if found is None and lost.looks < LOOKS:
            self._lost[folder] = replace(lost, looks=lost.looks + 1)
            raise lost.problem
        del self._lost[folder]
        if found is None and isinstance(lost.problem, LostError):
            raise SlurmError(f"{lost.problem}; no job of {folder} appeared in the queue")
        return found

    def all_of(self, listed: Collection[Listed]) -> list[str]:
        """Return the numbers of all jobs of unanswered submissions."""
        found = (
            find_new(folder, job_name(folder), lost.before, listed)
            for folder, lost in self._lost.items()
        )
        return [job.job_id for job in found if job]
