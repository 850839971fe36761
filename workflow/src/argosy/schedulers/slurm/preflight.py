"""Checks that Slurm would accept a study's scripts, before any of them is submitted."""

import math
import re
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TypeVar

from argosy.schedulers.base import Accepted, NotAnsweredError, Say, speaking
from argosy.schedulers.missing_images import check_images
from argosy.schedulers.slurm.answers import read_config, read_records, read_start
from argosy.schedulers.slurm.commands import MissingError, NoAnswerError, Patience, SlurmError
from argosy.schedulers.slurm.given import mebibytes
from argosy.schedulers.slurm.options import ScriptOptions
from argosy.schedulers.slurm.partitions import (
    NODE_QUESTION,
    PARTITION_QUESTION,
    Partition,
    partition_of,
    read_nodes,
    read_partitions,
)
from argosy.schedulers.slurm.refusals import (
    NO_MUNGE,
    NO_SUCH_NODES,
    Shortage,
    Wait,
    explain,
    find_shortage,
    refusal,
    wait_for,
)
from argosy.schedulers.slurm.run_jobs import jobs_of
from argosy.schedulers.slurm.shared_script import write_script
from argosy.schedulers.slurm.submission import CONFIG, check_script, check_variables
from argosy_common.errors import ArgosyError
from argosy_common.units import duration


def _check_start(options: ScriptOptions, answer: str) -> None:
    """Reject a job for which `sbatch --test-only` names another partition or fewer nodes than requested."""
    nodes, given = read_start(answer) or (0, "")
    partition, asked = (options.values.get(name) or "" for name in ("partition", "nodes"))
    if given and partition and given not in partition.split(","):
        raise ArgosyError(
            f"{options.keys('partition')}: Slurm would run {options.where} in the partition {given}: "
            f"the site redirects jobs of {partition} to it",
            f"set the partition to {given} if you want to measure its nodes",
        )
    if asked.isdigit() and 0 < nodes < int(asked):
        raise ArgosyError(
            f"{options.keys('nodes')}: Slurm would allocate {nodes} of the {asked} nodes that "
            f"{options.where} requests: a plugin of the site reduces the number",
            "request as many nodes as the site allows",
        )


def _more_cpus(options: ScriptOptions, partition: Partition | None) -> str:
    """Return a warning if Slurm will allocate more CPUs of a node than requested; else empty.

    MaxMemPerCPU turns memory into CPUs; the answer of `sbatch --test-only` does not include them.
    """
    cpus, memory = options.values.get("cpus-per-task") or "1", mebibytes(options.values.get("mem"))
    memory = memory or mebibytes(options.values.get("mem-per-cpu")) * int(cpus)
    most = partition.memory_per_cpu if partition else math.inf
    given = math.ceil(memory / most)
    if partition is None or given <= int(cpus):
        return ""
    return (
        f"Slurm will allocate {given} CPUs of each node instead of {cpus}, since the partition "
        f"{partition.name} counts {most:.0f} MiB for a CPU and the job requests {memory:.0f}: "
        f"{options.keys('mem')}, or {options.keys('cpus-per-task')}, changes that"
    )


T = TypeVar("T")


NOT_YET = re.compile(r"invalid time specified|reservation not usable now", re.IGNORECASE)

OF_ONE_RUN = ("job-name", "chdir", "output")

LONGEST_SILENCE_S = 600.0
"""Seconds of silence after which the check fails."""

PAUSE_S = 10.0


def check_scripts(scripts: Iterable[Path], say: Say) -> list[Accepted]:
    """Test each shape of job once, by `sbatch --test-only`.

    Runs of one point have the same options, so a study needs few queries.

    Args:
        say: prints progress while Slurm does not answer.

    Raises:
        ArgosyError: naming the key to change, with Slurm's message, or the missing image.
    """
    folders = [script.absolute().parent for script in scripts]
    check_images(folders)
    check_variables()
    shapes: dict[tuple[tuple[str, str | None], ...], ScriptOptions] = {}
    for folder in _job_folders(folders):
        options = ScriptOptions(folder)
        shapes.setdefault(_shape(options), options)
    if not shapes:
        return []
    first = next(iter(shapes.values()))
    questions = _Questions(first, say)
    config = questions.put(*CONFIG, read=read_config)
    _check_cluster(first, config.get("ClusterName", ""))
    read = partial(read_partitions, of_all=config.get("MaxMemPerCPU", ""))
    known = questions.put(*PARTITION_QUESTION, read=read)
    return [_check(options, known, questions) for options in shapes.values()]


def _check_cluster(options: ScriptOptions, here: str) -> None:
    """Reject a site whose cluster is not the one that Slurm's commands reach."""
    named = options.cluster_name
    if named and here != named:
        raise ArgosyError(
            f"{options.site_file}: cluster_name: is {named}, but Slurm's commands here reach {here}",
            f"choose the site of {here}, or work on a login node of {named}",
        )


def _job_folders(run_dirs: Iterable[Path]) -> list[Path]:
    """Return the folders of the jobs' scripts, and write the scripts of shared jobs."""
    found = jobs_of(run_dirs)
    for folder, runs in found.items():
        if runs != [folder]:
            write_script(folder, runs)
    return [*found]


def _shape(options: ScriptOptions) -> tuple[tuple[str, str | None], ...]:
    return tuple(item for item in options.values.items() if item[0] not in OF_ONE_RUN)


class _Questions:
    """Repeats queries of Slurm until an answer arrives; messages name the site of `options`."""

    def __init__(self, options: ScriptOptions, say: Say) -> None:
        self._options = options
        self._say = say
        self._patience = Patience()

    def put(self, *command: str, read: Callable[[str], T], with_errors: bool = False) -> T:
        """Run a command and parse its answer with `read`.

        Raises:
            SlurmError: if Slurm refuses.
            ArgosyError: if Slurm is not installed here, or does not answer for LONGEST_SILENCE_S.
        """
        began = time.monotonic()
        while True:
            try:
                with speaking(self._say, f"Slurm's answer to `{command[0]}`"):
                    return read(self._patience.ask(*command, with_errors=with_errors))
            except MissingError as problem:
                raise ArgosyError(
                    f"{self._options.site_file}: scheduler: is slurm, but {problem}",
                    "run on a login node of the cluster, or choose the site `local`",
                ) from None
            except NoAnswerError as problem:
                if NO_MUNGE.search(str(problem)):
                    raise ArgosyError(explain(self._options.run_dir, str(problem))) from None
                silent = time.monotonic() - began
                if silent > LONGEST_SILENCE_S:
                    raise NotAnsweredError(
                        f"Slurm has not answered for {silent:.0f} s ({problem})",
                        "nothing has been submitted: start again when `sinfo` answers here",
                    ) from None
                until = f"for {duration(int(LONGEST_SILENCE_S))} at most"
                self._say(
                    f"Slurm has not answered for {silent:.0f} s ({problem}); asking again, {until}"
                )
                time.sleep(PAUSE_S)


def _check(options: ScriptOptions, known: list[Partition], questions: _Questions) -> Accepted:
    """Test one shape of job.

    Raises:
        ArgosyError: if Slurm refuses it, or would keep it waiting forever.
    """
    script = options.run_dir / "job.sbatch"
    check_script(options)
    partition = partition_of(options.values, known)
    if partition:
        _check_limits(options, partition)
    try:
        answer = questions.put("sbatch", "--test-only", str(script), read=str, with_errors=True)
    except SlurmError as problem:
        return Accepted(script, _why_it_waits(options, str(problem), questions))
    _check_start(options, answer)
    return Accepted(script, _wait_for_partition(options, partition), _more_cpus(options, partition))


def _check_limits(options: ScriptOptions, partition: Partition) -> None:
    """Reject jobs over the partition's limits, which sbatch accepts with EnforcePartLimits=NO."""
    if options.minutes > partition.minutes:
        said = f"the partition {partition.name} has a time limit of {partition.minutes:.0f} minutes"
        raise ArgosyError(explain(options.run_dir, said))
    if int(options.values.get("nodes") or 0) > partition.nodes:
        said = f"too many nodes for the partition {partition.name}: {partition.nodes:.0f} at most"
        raise ArgosyError(explain(options.run_dir, said))


def _why_it_waits(options: ScriptOptions, said: str, questions: _Questions) -> str:
    """Return why a job that the test refuses for now will wait.

    Raises:
        ArgosyError: if waiting does not help.
    """
    if wait := wait_for(said, has_jobs=True) or _wait_for_reservation(options, said, questions):
        return wait
    if NO_SUCH_NODES.search(said):
        return _wait_for_nodes(options, said, questions)
    raise ArgosyError(explain(options.run_dir, said))


def _wait_for_reservation(options: ScriptOptions, said: str, questions: _Questions) -> str:
    """Return when the script's reservation begins if the test refuses it until then; else empty."""
    name = options.values.get("reservation")
    if not name or not NOT_YET.search(said):
        return ""
    try:
        text = questions.put("scontrol", "show", "reservation", "-o", name, read=str)
    except SlurmError:
        return ""
    start = next((each.get("StartTime", "") for each in read_records(text, "ReservationName")), "")
    if not start.isdigit() or int(start) <= time.time():
        return ""
    begins = time.strftime("%Y-%m-%d %H:%M", time.localtime(int(start)))
    return f"the reservation {name} begins at {begins}; {options.keys('reservation')} names it"


def _wait_for_nodes(options: ScriptOptions, said: str, questions: _Questions) -> str:
    """Return why a job will wait that the test refuses, but sbatch accepts, while nodes are unavailable.

    Raises:
        ArgosyError: if unavailable nodes are not the reason.
    """
    found = find_shortage(options.values, questions.put(*NODE_QUESTION, read=read_nodes))
    if isinstance(found, Wait):
        return f"{found.words}; {options.keys('partition')} chooses the partition"
    if isinstance(found, Shortage):
        raise ArgosyError(refusal(options, found.options, f"{said}: {found.words}"))
    raise ArgosyError(explain(options.run_dir, said))


def _wait_for_partition(options: ScriptOptions, partition: Partition | None) -> str:
    if partition is None or partition.state != "DOWN":
        return ""
    return (
        f"the site has closed the partition {partition.name} (DOWN: it queues jobs, but starts none); "
        f"{options.keys('partition')} chooses it"
    )
