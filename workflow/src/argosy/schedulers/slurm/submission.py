"""Submits a script to the user's cluster, and finds its job if sbatch's answer is lost."""

import os
import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from argosy.schedulers.base import Listed, Status, job_name
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
    """Reject variables that direct the user's Slurm commands to another cluster.

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
    """Reject a script that a site's template directs to another cluster.

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
    """Cancel a job that sbatch sent to another cluster, whose queue Argosy does not poll.

    Raises:
        SlurmError: if it went to another cluster, with its name.
    """
    try:
        here = cluster_name(Patience())
    except SlurmError:
        # The job id is known, so the next poll finds out.
        return
    if cluster == here:
        return
    call("scancel", f"--clusters={cluster}", job_id)
    raise SlurmError(
        f"sbatch sent the job {job_id} to the cluster {cluster}, but Argosy works with {here}: "
        f"the job is cancelled; {_REMEDY}"
    )


LOOKS = 1
"""Number of polls after an unanswered submission in which its job may still be missing."""


class LostError(NoAnswerError):
    """Slurm accepted the script, but the answer lacks the job id."""


def submit(script: Path, folder: Path, exclude: str = "") -> str:
    """Submit a script from `folder`, and return the job id.

    Args:
        exclude: nodes to exclude, instead of the script's own list.

    Raises:
        LostError: a job exists, but its id is unknown: `find_new` finds it in the queue.
        NoAnswerError: such a job may exist.
        SlurmError: no job exists.
    """
    try:
        more = [f"--exclude={exclude}"] if exclude else []
        said = call("sbatch", "--parsable", *more, script, cwd=folder)
    except SlurmError as problem:
        # A wrapper may fail after Slurm accepted the script.
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
    """Return the newest job with this name and folder that is not in `before`."""
    here = os.path.realpath(folder)
    found = [
        job
        for job in listed
        if job.name == name and job.job_id not in before and os.path.realpath(job.work_dir) == here
    ]
    return max(found, key=lambda job: int(job.job_id), default=None)


def script_of(job_id: str, folder: Path, patience: Patience) -> str:
    """Return Slurm's copy of the script of a job of `folder`.

    Slurm writes it into a file, since standard output may contain a site's banners.

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
    """A submission without an answer: its runs, the queue before it, and the problem."""

    run_dirs: list[Path]
    before: frozenset[str]
    problem: NoAnswerError
    looks: int = 0


class LostJobs:
    """Records unanswered submissions, so that no script is submitted twice."""

    def __init__(self) -> None:
        self._lost: dict[Path, _Lost] = {}

    def __bool__(self) -> bool:
        return bool(self._lost)

    def guarded(
        self,
        folder: Path,
        run_dirs: list[Path],
        listed: Iterable[Listed],
        submit_it: Callable[[], Status],
    ) -> Status:
        """Submit the script of `folder` for these runs; raises as `submit`.

        Args:
            listed: the queue before the submission.
        """
        try:
            return submit_it()
        except NoAnswerError as problem:
            before = frozenset(job.job_id for job in listed)
            self._lost[folder] = _Lost(run_dirs, before, problem)
            raise

    def find(self, folder: Path, listed: Iterable[Listed]) -> dict[Path, Listed]:
        """Return the job of an unanswered submission for each of its runs, even if it has ended.

        Empty without one.

        Raises:
            NoAnswerError: if the job may still appear.
            SlurmError: if Slurm accepted it but it never appeared.
        """
        lost = self._lost.get(folder)
        if lost is None:
            return {}
        found = find_new(folder, job_name(folder), lost.before, listed)
        if found is None and lost.looks < LOOKS:
            self._lost[folder] = replace(lost, looks=lost.looks + 1)
            raise lost.problem
        del self._lost[folder]
        if found is None and isinstance(lost.problem, LostError):
            raise SlurmError(f"{lost.problem}; no job of {folder} appeared in the queue")
        return dict.fromkeys(lost.run_dirs, found) if found else {}

    def all_of(self, listed: Collection[Listed]) -> list[str]:
        """Return the ids of all jobs of unanswered submissions."""
        found = (
            find_new(folder, job_name(folder), lost.before, listed)
            for folder, lost in self._lost.items()
        )
        return [job.job_id for job in found if job]
