"""Queries Slurm's commands for the survey, and parses their answers."""

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

from argosy.schedulers.batch_system import NodeKind, QueueFacts
from argosy.schedulers.slurm.answers import read_records, span_seconds
from argosy.schedulers.slurm.commands import LateError, SlurmError, call
from argosy.schedulers.slurm.given import offered_gres

ABSENT = frozenset({"", "(null)", "N/A", "NONE", "n/a", "none"})


def known(record: dict[str, str], key: str) -> str:
    """Return a value of a record; empty for Slurm's words for none."""
    value = record.get(key, "")
    return "" if value in ABSENT else value


def key_of(name: str) -> str:
    """Convert a name of Slurm's into a key of a site's file."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", name).lstrip("._-") or "unnamed"


def number(text: str) -> int | None:
    """Parse a whole number; None for words such as `UNLIMITED`."""
    return int(text) if text.isdigit() else None


T = TypeVar("T")

ANSWER_S = 20.0
"""Time limit of one query, in seconds."""


class Questions:
    """Runs queries within a common time limit, and describes failed ones in `unknown`.

    Args:
        limit_s: seconds for all queries together.
    """

    def __init__(self, limit_s: float) -> None:
        self._until = time.monotonic() + limit_s
        self.unknown: list[str] = []

    def ask(self, what: str, *command: str, read: Callable[[str], T]) -> T | None:
        """Return the parsed answer; without one, record `what` as unknown and return None."""
        try:
            return read(self.call(*command))
        except SlurmError as problem:
            self.unknown.append(f"{what} ({' '.join(command[:3])}: {problem})")
            return None

    def call(self, *command: str) -> str:
        """Return an answer. Raises SlurmError."""
        left = self._until - time.monotonic()
        if left <= 0:
            raise LateError("not asked: Slurm's other answers took too long")
        return call(*command, timeout_s=min(ANSWER_S, left))


PARTITION_ORIGIN = "scontrol show partition"
SHORT_MINUTES = 60
QOS_FIELDS = ("name", "maxwall", "maxtres", "maxtrespu")
"""Fields of `sacctmgr show qos`; the last two limit the size of a job."""
SHORT, PREEMPTED, FOR_TESTS = 1, 2, 3
"""Reasons to avoid a partition, weakest first (`QueueFacts.reserve`)."""
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_TEST_WORD = re.compile(
    r"(?:cpu|gpu|q)*(?:dev|devel\w*|\w*debug\w*|dbg|tests?|testing|interact\w*|express)(?:cpu|gpu|q|queue)*"
)
"""A word for tests in a partition's name, perhaps with a kind of node: `gputest`, `develbooster`."""


class QosLimit(NamedTuple):
    """A QoS's limits for one job in minutes and nodes; None: no limit."""

    minutes: float | None
    nodes: int | None


def read_qos(rows: Iterable[Sequence[str]]) -> dict[str, QosLimit]:
    """Return the limits by QoS from rows of `QOS_FIELDS`."""
    found = {}
    for name, wall, *tres in (row for row in rows if len(row) == len(QOS_FIELDS)):
        seconds = span_seconds(wall)
        nodes = [int(each[1]) for text in tres for each in re.finditer(r"\bnode=(\d+)", text)]
        found[name] = QosLimit(
            None if seconds is None else seconds / 60, min(nodes) if nodes else None
        )
    return found


def queue_of(
    record: dict[str, str],
    kinds: Sequence[NodeKind],
    highest_tier: int,
    by_qos: Mapping[str, QosLimit],
) -> QueueFacts:
    """Convert a partition into a queue.

    Args:
        record: the partition's record from scontrol.
        kinds: kinds of its nodes.
        highest_tier: the highest PriorityTier of all partitions.
        by_qos: limits by name of the QoS.
    """
    name = record["PartitionName"]
    total = number(record.get("TotalNodes", ""))
    limit = by_qos.get(known(record, "QoS"), QosLimit(None, None))
    nodes = [each for each in (number(record.get("MaxNodes", "")), total, limit.nodes) if each]
    seconds = span_seconds(record.get("MaxTime", ""))
    spans_known = [None if seconds is None else seconds / 60, limit.minutes]
    minutes = min((each for each in spans_known if each is not None), default=None)
    reserve, aside = _aside(record, minutes, highest_tier)
    qos = f", QoS {known(record, 'QoS')}" if limit != QosLimit(None, None) else ""
    return QueueFacts(
        name=name,
        key=key_of(name),
        kinds=tuple(dict.fromkeys(each.name for each in kinds)),
        options={"partition": name},
        nodes=min(nodes, default=1),
        minutes=minutes,
        reserve=reserve,
        aside=aside,
        gpus_only=False,
        origin=f"{PARTITION_ORIGIN} {name}{qos}",
    )


def _aside(record: dict[str, str], minutes: float | None, highest_tier: int) -> tuple[int, str]:
    """Return the rank and the reason for which other queues are tried first; 0 and empty without one."""
    tier = number(record.get("PriorityTier", "")) or 0
    mode = known(record, "PreemptMode") or "OFF"
    if is_for_tests(record["PartitionName"]):
        return FOR_TESTS, "by its name it is for tests"
    if mode.partition(",")[0] not in ("OFF", "GANG") and tier < highest_tier:
        return PREEMPTED, f"its jobs are preemptible (PreemptMode={mode})"
    if minutes is not None and minutes <= SHORT_MINUTES:
        return SHORT, f"its jobs are limited to {minutes:.0f} minutes"
    return 0, ""


def is_for_tests(name: str) -> bool:
    """Return whether a partition's name contains a word for tests: `gh-dev`, but not `latest`."""
    words = {*re.findall("[a-z]+", name.lower()), *(word.lower() for word in _WORDS.findall(name))}
    return any(map(_TEST_WORD.fullmatch, words))


def with_ways_in(queues: Sequence[QueueFacts], kinds: Iterable[NodeKind]) -> list[QueueFacts]:
    """Open queues so that jobs that name no queue reach every kind of node.

    If all queues of a kind are set aside, the queues with the weakest reason are opened.
    """
    ways = [
        [each for each in queues if kind.name in each.kinds and (kind.gpus or not each.gpus_only)]
        for kind in kinds
    ]
    # On a cluster of GPU nodes only, jobs without GPUs also need a queue.
    ways.append([each for each in queues if not each.gpus_only])
    opened = set()
    for way in ways:
        weakest = min((each.reserve for each in way), default=0)
        opened |= {each.name for each in way if each.reserve == weakest > 0}
    return [_not_aside(each) if each.name in opened else each for each in queues]


def _not_aside(queue: QueueFacts) -> QueueFacts:
    words = f"{queue.origin}; {queue.aside}, but jobs that need its nodes have no better queue"
    return replace(queue, aside="", origin=words)


def refused_account(record: dict[str, str], account: str) -> str:
    """Return why a partition refuses an account; empty if it accepts it.

    Without EnforcePartLimits sbatch accepts such a job, which then waits forever.
    """
    allowed = known(record, "AllowAccounts") or "ALL"
    denied = known(record, "DenyAccounts")
    if allowed.upper() != "ALL" and account not in allowed.split(","):
        return f"it is for the accounts {allowed}, not for {account}"
    if account in denied.split(","):
        return f"it is not for the account {account}"
    return ""


def in_order(queues: Iterable[QueueFacts], default: str | None) -> list[QueueFacts]:
    """Sort the queues by preference: the default one first, queues set aside last."""
    return sorted(
        queues,
        key=lambda each: (
            each.reserve,
            each.name != default,
            -each.nodes,
            -(each.minutes or float("inf")),
            each.name,
        ),
    )


ARCHITECTURES = {"x86_64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}
NODE_ORIGIN = "scontrol show node"
_AWAY = ("DOWN", "DRAIN", "FAIL", "MAINT", "RESERVED")


@dataclass(frozen=True)
class Node:
    """A node as declared by slurm.conf and slurmd."""

    name: str
    architecture: str
    cores: int
    threads_per_core: int
    memory: int
    gpus: Mapping[str, int]
    """Number of GPUs by type; the type may be empty."""
    partitions: frozenset[str]
    state: str

    @property
    def is_away(self) -> bool:
        """Whether the node accepts no jobs now."""
        # Nodes in POWERED_DOWN start for a job.
        words = re.findall("[A-Z_]+", self.state)
        return any(word.startswith(_AWAY) for word in words)


def read_nodes(text: str) -> list[Node]:
    """Return the nodes of an answer, except nodes of unknown size, which have never started."""
    return [node for record in read_records(text, "NodeName") if (node := _node(record))]


def _node(record: dict[str, str]) -> Node | None:
    cpus, memory = number(record.get("CPUTot", "")), number(record.get("RealMemory", ""))
    if not cpus or not memory:
        return None
    sockets = number(record.get("Sockets", "")) or 0
    cores = sockets * (number(record.get("CoresPerSocket", "")) or 0) or cpus
    threads = max(1, cpus // cores)
    # Jobs cannot request cores that Slurm reserves for the system.
    kept = number(record.get("CoreSpecCount", "")) or 0
    usable = number(record.get("CPUEfctv", ""))
    return Node(
        name=record["NodeName"],
        architecture=known(record, "Arch"),
        cores=max(1, usable // threads if usable else min(cores, cpus) - kept),
        threads_per_core=threads,
        memory=max(1, memory - (number(record.get("MemSpecLimit", "")) or 0)),
        gpus=_gpus(known(record, "Gres")),
        partitions=frozenset(known(record, "Partitions").split(",")) - {""},
        state=record.get("State", ""),
    )


def _gpus(text: str) -> dict[str, int]:
    offered = offered_gres(text) if text else {}
    typed = {
        name.removeprefix("gpu:"): count
        for name, count in offered.items()
        if name.startswith("gpu:")
    }
    rest = offered.get("gpu", 0) - sum(typed.values())
    return {**typed, **({"": rest} if rest > 0 else {})}


def kinds_by_partition(nodes: Iterable[Node]) -> dict[str, list[NodeKind]]:
    """Return the kinds of nodes of each partition: one for each type of GPU, and one without GPUs.

    Nodes of a partition that differ in cores or memory are one kind with the smallest values, since a job
    cannot choose between them. Equal kinds of two partitions are one kind.
    """
    members: dict[str, dict[tuple[str, str], list[Node]]] = {}
    for node in nodes:
        for partition in sorted(node.partitions):
            groups = members.setdefault(partition, {})
            for gpu in node.gpus or {"-": 0}:
                groups.setdefault((node.architecture, gpu), []).append(node)
    found = {
        partition: [_kind(gpu, group) for (_, gpu), group in groups.items()]
        for partition, groups in members.items()
    }
    return _with_names(found)


def _kind(gpu: str, nodes: Sequence[Node]) -> NodeKind:
    has_gpus = gpu != "-"
    asked = f"gpu:{gpu}:{{gpus}}" if gpu else "gpu:{gpus}"
    return NodeKind(
        name="",
        architecture=ARCHITECTURES.get(nodes[0].architecture, nodes[0].architecture),
        cores=min(each.cores for each in nodes),
        threads_per_core=min(each.threads_per_core for each in nodes),
        memory=min(each.memory for each in nodes),
        gpus=min(each.gpus[gpu] for each in nodes) if has_gpus else 0,
        gpu=gpu if has_gpus and gpu else None,
        options={"gres": asked} if has_gpus else {},
        nodes=tuple(sorted(each.name for each in nodes)),
        usable=sum(not each.is_away for each in nodes),
        origin=_nodes_in_words(nodes),
    )


def _nodes_in_words(nodes: Sequence[Node]) -> str:
    away = sum(each.is_away for each in nodes)
    differ = len({(each.cores, each.memory) for each in nodes}) > 1
    words = (
        f"{NODE_ORIGIN} {nodes[0].name}"
        if len(nodes) == 1
        else f"{NODE_ORIGIN}: {len(nodes)} nodes"
    )
    return (
        words
        + (", the smallest values" if differ else "")
        + (f", of which {away} accept no jobs now" if away else "")
    )


def _with_names(found: dict[str, list[NodeKind]]) -> dict[str, list[NodeKind]]:
    """Name each kind by its GPUs or `cpu`, and by the partition if several would share a name."""
    shapes: dict[object, NodeKind] = {}
    taken: set[str] = set()
    for partition, kinds in found.items():
        for kind in kinds:
            if _shape(kind) in shapes:
                continue
            plain = key_of(kind.gpu or ("gpu" if kind.gpus else "cpu"))
            name = plain if plain not in taken else f"{plain}-{key_of(partition)}"
            while name in taken:
                name += "-2"
            taken.add(name)
            shapes[_shape(kind)] = replace(kind, name=name)
    return {
        partition: [shapes[_shape(kind)] for kind in kinds] for partition, kinds in found.items()
    }


def _shape(kind: NodeKind) -> object:
    return (
        *(kind.architecture, kind.cores, kind.threads_per_core, kind.memory),
        *(kind.gpus, kind.gpu),
    )
