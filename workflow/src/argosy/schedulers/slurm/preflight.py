"""Asks Slurm whether it would take a study's scripts, before any of them is submitted."""

import time
from collections.abc import Iterable
from pathlib import Path

from argosy.errors import ArgosyError
from argosy.schedulers.base import Accepted, Say
from argosy.schedulers.missing_images import check_images
from argosy.schedulers.slurm import nodes, partitions
from argosy.schedulers.slurm.commands import MissingError, NoAnswerError, Patience, SlurmError
from argosy.schedulers.slurm.nodes import read_nodes
from argosy.schedulers.slurm.option_keys import ScriptOptions
from argosy.schedulers.slurm.partitions import Partition, read_partitions
from argosy.schedulers.slurm.refusals import NO_MUNGE, NO_SUCH_NODES, explain, refusal
from argosy.schedulers.slurm.shared_jobs import split_shared, write_script
from argosy.schedulers.slurm.shortages import Shortage, Wait, find_shortage

OF_ONE_RUN = ("job-name", "chdir", "output")

LONGEST_SILENCE_S = 600.0
"""How long Slurm is asked again and again while it does not answer at all."""

PAUSE_S = 10.0


def check_scripts(scripts: Iterable[Path], say: Say) -> list[Accepted]:
    """Test each shape of job once, by `sbatch --test-only`.

    Runs of one point differ in nothing that Slurm looks at, so a study costs a few questions.

    Args:
        say: is told when Slurm lets one wait for its answers.

    Raises:
        ArgosyError: naming the key to change, with Slurm's words, or the image that is not there.
    """
    folders = [script.absolute().parent for script in scripts]
    check_images(folders)
    shapes: dict[tuple[tuple[str, str | None], ...], ScriptOptions] = {}
    for folder in _job_folders(folders):
        options = ScriptOptions(folder)
        shapes.setdefault(_shape(options), options)
    questions = _Questions(say)
    if not shapes:
        return []
    known = read_partitions(
        questions.put(
            next(iter(shapes.values())), "sinfo", "-h", f"--format={partitions.SINFO_FORMAT}"
        )
    )
    return [_check(options, known, questions) for options in shapes.values()]


def _job_folders(run_dirs: Iterable[Path]) -> list[Path]:
    """Return the folders of the jobs' scripts: each run's, or that of all that share one, written here."""
    alone, shared = split_shared(run_dirs)
    return [*alone, *(write_script(folder, runs).parent for folder, runs in shared.items())]


def _shape(options: ScriptOptions) -> tuple[tuple[str, str | None], ...]:
    return tuple(item for item in options.values.items() if item[0] not in OF_ONE_RUN)


class _Questions:
    """Commands of Slurm's that change nothing: asked again while there is no answer."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._patience = Patience()

    def put(self, options: ScriptOptions, *command: str) -> str:
        """Return a command's answer.

        Raises:
            SlurmError: when Slurm says no.
            ArgosyError: when there is no Slurm here, or no answer for LONGEST_SILENCE_S.
        """
        began = time.monotonic()
        while True:
            try:
                return self._patience.ask(*command)
            except MissingError as problem:
                raise ArgosyError(
                    f"{options.site_file}: scheduler: it is slurm, but {problem}",
                    "run on a login node of the cluster, or choose the site `local`",
                ) from None
            except NoAnswerError as problem:
                if NO_MUNGE.search(str(problem)):
                    raise ArgosyError(explain(options.run_dir, str(problem))) from None
                silent = time.monotonic() - began
                if silent > LONGEST_SILENCE_S:
                    raise ArgosyError(
                        f"Slurm has not answered for {silent:.0f} s ({problem})",
                        "nothing has been submitted: start again when `sinfo` answers here",
                    ) from None
                self._say(f"Slurm has not answered for {silent:.0f} s ({problem}); asking again")
                time.sleep(PAUSE_S)


def _check(options: ScriptOptions, known: list[Partition], questions: _Questions) -> Accepted:
    """Ask about one shape of job.

    Raises:
        ArgosyError: when Slurm refuses it, or would let it wait for ever.
    """
    script = options.run_dir / "job.sbatch"
    partition = partitions.of_script(options.values, known)
    if partition:
        _check_limits(options, partition)
    try:
        questions.put(options, "sbatch", "--test-only", str(script))
    except SlurmError as problem:
        return Accepted(script, _wait_for_nodes(options, str(problem), questions))
    return Accepted(script, _wait_for_partition(options, partition))


def _check_limits(options: ScriptOptions, partition: Partition) -> None:
    """Refuse what the partition never runs: many sites' sbatch takes it (EnforcePartLimits=NO)."""
    if options.minutes > partition.minutes:
        said = f"the partition {partition.name} has a time limit of {partition.minutes:.0f} minutes"
        raise ArgosyError(explain(options.run_dir, said))
    if int(options.values.get("nodes") or 0) > partition.nodes:
        said = f"too many nodes for the partition {partition.name}: {partition.nodes:.0f} at most"
        raise ArgosyError(explain(options.run_dir, said))


def _wait_for_nodes(options: ScriptOptions, said: str, questions: _Questions) -> str:
    """Return what a job waits for that only the test refuses: sbatch itself takes it while nodes are away.

    Raises:
        ArgosyError: when nodes that are away are not the reason.
    """
    if NO_SUCH_NODES.search(said):
        listed = questions.put(options, "sinfo", "-h", "-N", f"--format={nodes.SINFO_FORMAT}")
        found = find_shortage(options.values, read_nodes(listed))
        if isinstance(found, Wait):
            return f"{found.words}; {options.keys('partition')} chooses the partition"
        if isinstance(found, Shortage):
            raise ArgosyError(refusal(options, found.options, f"{said}: {found.words}"))
    raise ArgosyError(explain(options.run_dir, said))


def _wait_for_partition(options: ScriptOptions, partition: Partition | None) -> str:
    if partition is None or partition.state != "down":
        return ""
    return (
        f"the site has closed the partition {partition.name} (it is down: it takes jobs, and starts none); "
        f"{options.keys('partition')} chooses it"
    )
