"""Surveys a Slurm cluster, and submits small jobs that inspect its nodes."""

import getpass
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from argosy.schedulers.base import BusyError, NotNowError, SchedulerError, State, Status
from argosy.schedulers.batch_system import ClusterFacts, LookJob, NodeKind, QueueFacts
from argosy.schedulers.slurm.answers import read_accounts, read_config, read_records
from argosy.schedulers.slurm.commands import MissingError, NoAnswerError, Patience, SlurmError, call
from argosy.schedulers.slurm.options import directive
from argosy.schedulers.slurm.partitions import PARTITION_QUESTION
from argosy.schedulers.slurm.queue import explain, list_jobs
from argosy.schedulers.slurm.refusals import NO_SUCH_NODES, wait_for
from argosy.schedulers.slurm.submission import CONFIG, find_new, submit
from argosy.schedulers.slurm.survey_answers import (
    ANSWER_S,
    QOS_FIELDS,
    QosLimit,
    Questions,
    in_order,
    kinds_by_partition,
    number,
    queue_of,
    read_nodes,
    read_qos,
    refused_account,
    with_ways_in,
)
from argosy_common.errors import ArgosyError
from argosy_common.files import write_text

T = TypeVar("T")

_ACCOUNTS = ("sacctmgr", "--parsable", "show")

SURVEY_S = 60.0
"""Seconds for all queries together."""
JOB_MINUTES = 2
JOB_NAME = "argosy-probe"
SCRIPT = "job.sbatch"
OUTPUT = "job.log"
CANCEL_S = 10.0


class SlurmSurveyor:
    """Surveys a cluster with the permissions of an ordinary user."""

    def __init__(self) -> None:
        self._patience = Patience()

    def survey(self, account: str | None, say: Callable[[str], None]) -> ClusterFacts:
        """Query nodes, partitions and accounts, and test them by sbatch --test-only."""
        questions = Questions(SURVEY_S)
        say("querying Slurm's nodes, partitions and accounts")
        partitions = _ask_or_raise(questions, *PARTITION_QUESTION, read=_partitions)
        nodes = _ask_or_raise(questions, "scontrol", "show", "node", "-o", read=read_nodes)
        if not partitions or not nodes:
            raise ArgosyError(
                "Slurm lists no partition or no node here",
                "check what `scontrol show partition` and `scontrol show node` print",
            )
        config = questions.ask("settings of the cluster", *CONFIG, read=read_config) or {}
        kinds = kinds_by_partition(nodes)
        notes = _closed_partitions(partitions)
        queues = _queues(partitions, kinds, _qos_limits(config, questions))
        accounts = _accounts(config, account, questions)
        say(f"testing whether {len(queues)} partitions accept a job")
        by_name = {each.name: each for many in kinds.values() for each in many}
        tests = _Tests(questions, by_name, {each["PartitionName"]: each for each in partitions})
        found, paying, required = tests.of_all(queues, accounts, account)
        used = {name for queue in found for name in queue.kinds}
        listed = [kind for kind in tests.kinds.values() if kind.name in used]
        found = with_ways_in(found, listed)
        return ClusterFacts(
            name=config.get("ClusterName", ""),
            kinds=tuple(sorted(listed, key=lambda each: (each.gpus > 0, each.name))),
            queues=tuple(found),
            account=paying,
            account_required=required,
            account_origin=_account_words(
                account, accounts, paying, required=required, is_known=not tests.all_refused
            ),
            unknown=tuple(questions.unknown),
            notes=(*notes, *tests.notes),
        )

    def cluster_name(self) -> str:
        """Return the cluster's name in Slurm's configuration."""
        return _ask_or_raise(Questions(ANSWER_S), *CONFIG, read=read_config).get("ClusterName", "")

    def look_options(
        self, kind: NodeKind, queue: QueueFacts, account: str | None, nodes: int
    ) -> dict[str, str | None]:
        """Return the smallest request of a look; with one GPU if the nodes have GPUs."""
        return {
            "job-name": JOB_NAME,
            "output": OUTPUT,
            "nodes": str(nodes),
            "ntasks-per-node": "1",
            "time": str(JOB_MINUTES),
            **({"account": account} if account else {}),
            **queue.options,
            **{name: value.format(gpus=1) for name, value in kind.options.items()},
        }

    def submit(self, job: LookJob) -> str:
        """Write the job's script into its folder, and submit it."""
        try:
            return self._submit(job)
        except NotNowError:
            raise
        except SlurmError:
            if job.most == job.nodes:
                raise
        # Some sites refuse ranges of nodes.
        return self._submit(replace(job, most=job.nodes))

    def _submit(self, job: LookJob) -> str:
        write_text(job.folder / SCRIPT, _script(job))
        try:
            return submit(job.folder / SCRIPT, job.folder)
        except NoAnswerError:
            found = find_new(job.folder, JOB_NAME, (), list_jobs(self._patience))
            if found is None:
                raise
            return found.job_id
        except SlurmError as problem:
            if wait := wait_for(str(problem), has_jobs=True):
                raise BusyError(wait) from None
            raise

    def status(self, job_id: str) -> Status:
        """Return a job's status from squeue."""
        listed = list_jobs(self._patience)
        job = next((each for each in listed if each.job_id == job_id), None)
        # Slurm soon drops ended jobs; a completing job has done its work.
        if job is None or not job.state.active or job.state is State.ENDING:
            return Status(State.GONE, job_id)
        if job.state.has_started:
            return Status(State.RUNNING, job_id)
        reason = explain(job.reason, alone=job.alone)
        words = reason.meaning or job.reason or "just submitted"
        return Status(State.PENDING, job_id, reason=words, stuck=words if reason.stuck else "")

    def cancel(self, job_id: str) -> None:
        """Cancel a job."""
        try:
            call("scancel", job_id, timeout_s=CANCEL_S)
        except SlurmError as problem:
            raise SchedulerError(f"cannot cancel job {job_id}: {problem}") from None


def _partitions(text: str) -> list[dict[str, str]]:
    return read_records(text, "PartitionName")


def _ask_or_raise(questions: Questions, *command: str, read: Callable[[str], T]) -> T:
    try:
        return read(questions.call(*command))
    except MissingError as problem:
        raise ArgosyError(str(problem), "probe on a login node of the cluster") from None
    except SlurmError as problem:
        raise ArgosyError(
            f"{' '.join(command)}: {problem}", "probe again when `sinfo` answers here"
        ) from None


def _closed_partitions(partitions: Sequence[dict[str, str]]) -> list[str]:
    return [
        f"partition {each['PartitionName']} is {each.get('State', 'closed')} and left out"
        for each in partitions
        if each.get("State") != "UP"
    ]


def _queues(
    partitions: Sequence[dict[str, str]],
    kinds: Mapping[str, Sequence[NodeKind]],
    by_qos: Mapping[str, QosLimit],
) -> list[QueueFacts]:
    """Return the open partitions with nodes, in order of preference."""
    tiers = [number(each.get("PriorityTier", "")) or 0 for each in partitions]
    default = next(
        (each["PartitionName"] for each in partitions if each.get("Default") == "YES"), None
    )
    queues = [
        queue_of(each, kinds[each["PartitionName"]], max(tiers), by_qos)
        for each in partitions
        if each.get("State") == "UP" and kinds.get(each["PartitionName"])
    ]
    return in_order(queues, default)


def _has_accounting(config: Mapping[str, str]) -> bool:
    return not config.get("AccountingStorageType", "").endswith("/none")


def _qos_limits(config: Mapping[str, str], questions: Questions) -> dict[str, QosLimit]:
    """Return the limits of each QoS."""
    if not _has_accounting(config):
        return {}
    read = partial(read_accounts, header="Name")
    asked = f"format={','.join(QOS_FIELDS)}"
    return read_qos(questions.ask("limits of QoS", *_ACCOUNTS, "qos", asked, read=read) or ())


def _accounts(
    config: Mapping[str, str], account: str | None, questions: Questions
) -> tuple[str, ...]:
    """Return the accounts to try, best first: the given one, or else the user's."""
    if account or not _has_accounting(config):
        return (account,) if account else ()
    user = getpass.getuser()
    read = partial(read_accounts, header="User")
    mine = questions.ask(
        "your accounts", *_ACCOUNTS, "assoc", f"user={user}", "format=user,account", read=read
    )
    default = questions.ask(
        "your default account",
        *(*_ACCOUNTS, "user", "-s", user, "format=user,defaultaccount"),
        read=read,
    )
    rows = (*(default or ()), *(mine or ()))
    return tuple(dict.fromkeys(account for name, account in rows if name == user and account))


def _account_words(
    given: str | None,
    accounts: Sequence[str],
    paying: str | None,
    *,
    required: bool,
    is_known: bool,
) -> str:
    if not required and not is_known:
        return "unknown"
    if not required:
        yours = f"; yours are {', '.join(accounts)}" if accounts else ""
        return f"sbatch --test-only accepts a job without one{yours}"
    if given:
        return "given by the user"
    others = [each for each in accounts if each != paying]
    more = f"; you also have {', '.join(others)}" if others else ""
    return f"sacctmgr show assoc, accepted by sbatch --test-only{more}"


class _Tests:
    """Tests queues and accounts by `sbatch --test-only`."""

    def __init__(
        self,
        questions: Questions,
        kinds: Mapping[str, NodeKind],
        partitions: Mapping[str, dict[str, str]],
    ) -> None:
        self._questions = questions
        self._partitions = partitions
        self.kinds = dict(kinds)
        self.notes: list[str] = []
        self.all_refused = False

    def of_all(
        self, queues: Sequence[QueueFacts], accounts: Sequence[str], given: str | None
    ) -> tuple[list[QueueFacts], str | None, bool]:
        """Return the queues that accept a job, the account to charge, and whether one is required.

        Args:
            accounts: the user's accounts, the default one first.
            given: the account named by the user; None: any.
        """
        default = accounts[0] if accounts else None
        ways: dict[str | None, str | None] = {None: default, **{each: each for each in accounts}}
        if given:
            ways = {given: given}

        def count_refusals(account: str | None) -> int:
            return sum(bool(self._refused_by_rule(each, ways[account])) for each in queues)

        # Prefer the account that most partitions accept, and no account over others.
        for account in sorted(ways, key=count_refusals):
            refusals = {
                each.name: self._refused_by_rule(each, ways[account])
                or self._refused_by_test(each, account)
                for each in queues
            }
            if not all(refusals.values()):
                found = (
                    self._as_usable(each, refusals[each.name], account, ways[account])
                    for each in queues
                )
                return [each for each in found if each], account, account is not None
        self.notes += [f"partition {name}: {said}" for name, said in refusals.items()]
        self.all_refused = True
        self._questions.unknown.append(
            "account (sbatch --test-only accepts no job of yours; see the reason for each "
            "partition below)"
        )
        return list(queues), given, bool(given)

    def _refused_by_rule(self, queue: QueueFacts, account: str | None) -> str:
        """Return why a queue's rules refuse an account; empty if they accept it."""
        return refused_account(self._partitions[queue.name], account) if account else ""

    def _as_usable(
        self, queue: QueueFacts, refused: str, account: str | None, paying: str | None
    ) -> QueueFacts | None:
        """Return a queue, for jobs with GPUs only if it refuses others; None if it accepts no job."""
        if not refused:
            return queue
        with_gpus = [self.kinds[name] for name in queue.kinds if self.kinds[name].gpus]
        by_rule = self._refused_by_rule(queue, paying)
        if with_gpus and not (by_rule or self._refused_by_test(queue, account, with_gpus[0])):
            return replace(queue, gpus_only=True)
        self.notes.append(f"partition {queue.name} is left out, since it accepts none: {refused}")
        return None

    def _refused_by_test(
        self, queue: QueueFacts, account: str | None, kind: NodeKind | None = None
    ) -> str:
        """Return why Slurm refuses a job; empty if it accepts it, now or once nodes are available."""
        more = [f"--account={account}"] if account else []
        if kind:
            more += [f"--{name}={value.format(gpus=1)}" for name, value in kind.options.items()]
        try:
            self._questions.call(
                *("sbatch", "--test-only", f"--time={JOB_MINUTES}", "--nodes=1"),
                *(f"--{name}={value}" for name, value in queue.options.items()),
                *more,
                "--wrap=true",
            )
        except SlurmError as problem:
            said = str(problem)
            is_for_now = NO_SUCH_NODES.search(said) or wait_for(said, has_jobs=True)
            return "" if is_for_now else said
        return ""


def _script(job: LookJob) -> str:
    options = dict(job.options)
    if job.most > job.nodes and options.get("nodes") == str(job.nodes):
        # With ntasks-per-node, Slurm would allocate the smallest number of nodes.
        options["nodes"] = f"{job.nodes}-{job.most}"
        options.pop("ntasks-per-node", None)
    lines = "\n".join(directive(name, value) for name, value in options.items())
    command = shlex.join(job.command)
    return (
        f"#!/bin/bash\n{lines}\n#\n# Inspects nodes from the inside; the command that submitted it waits.\n"
        "export ARGOSY_NODE_VARIABLE=SLURM_NODEID ARGOSY_NODES_VARIABLE=SLURM_STEP_NUM_NODES\n"
        'exec srun --nodes="$SLURM_JOB_NUM_NODES" --ntasks="$SLURM_JOB_NUM_NODES" --ntasks-per-node=1 '
        f"--export=ALL --kill-on-bad-exit=0 --wait=0 {command}\n"
    )
