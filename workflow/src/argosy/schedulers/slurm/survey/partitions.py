"""Partitions as ways into the cluster, from `scontrol show partition -o` and the limits of their QoS."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from argosy.schedulers.cluster_facts import NodeKind, QueueFacts
from argosy.schedulers.slurm import spans
from argosy.schedulers.slurm.survey.records import key_of, known, number

ORIGIN = "scontrol show partition"
SHORT_MINUTES = 60
QOS_FIELDS = ("name", "maxwall", "maxtres", "maxtrespu")
"""Of `sacctmgr show qos`: the last two limit a job, and all jobs of a user, so that none is larger."""
SHORT, PREEMPTED, FOR_TESTS = 1, 2, 3
"""Why jobs stay away from a partition, the weakest reason first (`QueueFacts.reserve`)."""
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_TEST_WORD = re.compile(
    r"(?:cpu|gpu|q)*(?:dev|devel\w*|\w*debug\w*|dbg|tests?|testing|interact\w*|express)(?:cpu|gpu|q|queue)*"
)
"""A word of a partition's name; sites glue it to the kind of nodes, as in `gputest` and `develbooster`."""


class QosLimit(NamedTuple):
    """The most that a QoS lets one job have: minutes, and nodes; None: no limit."""

    minutes: float | None
    nodes: int | None


def read_qos(rows: Iterable[Sequence[str]]) -> dict[str, QosLimit]:
    """Return the limits by QoS, of rows of `QOS_FIELDS`."""
    found = {}
    for name, wall, *tres in (row for row in rows if len(row) == len(QOS_FIELDS)):
        seconds = spans.seconds(wall)
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
    """Return a partition as a queue.

    Args:
        record: of scontrol.
        kinds: of its nodes.
        highest_tier: the highest PriorityTier that any partition has.
        by_qos: the limits of each QoS, by its name.
    """
    name = record["PartitionName"]
    total = number(record.get("TotalNodes", ""))
    limit = by_qos.get(known(record, "QoS"), QosLimit(None, None))
    nodes = [each for each in (number(record.get("MaxNodes", "")), total, limit.nodes) if each]
    seconds = spans.seconds(record.get("MaxTime", ""))
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
        origin=f"{ORIGIN} {name}{qos}",
    )


def _aside(record: dict[str, str], minutes: float | None, highest_tier: int) -> tuple[int, str]:
    """Return why jobs should not go there by themselves, as a rank and in words; 0 where they may."""
    tier = number(record.get("PriorityTier", "")) or 0
    mode = known(record, "PreemptMode") or "OFF"
    if is_for_tests(record["PartitionName"]):
        return FOR_TESTS, "by its name it is for tests"
    if mode.partition(",")[0] not in ("OFF", "GANG") and tier < highest_tier:
        return PREEMPTED, f"its jobs make room for others (PreemptMode={mode})"
    if minutes is not None and minutes <= SHORT_MINUTES:
        return SHORT, f"its jobs have {minutes:.0f} minutes at most"
    return 0, ""


def is_for_tests(name: str) -> bool:
    """Return whether a word of a partition's name says that it is for tests: `gh-dev`, and not `latest`."""
    words = {*re.findall("[a-z]+", name.lower()), *(word.lower() for word in _WORDS.findall(name))}
    return any(map(_TEST_WORD.fullmatch, words))


def with_ways_in(queues: Sequence[QueueFacts], kinds: Iterable[NodeKind]) -> list[QueueFacts]:
    """Return the queues, of which some lead to every kind of nodes for jobs that name none.

    Where all that lead there are aside, those with the weakest reason are so no longer.
    """
    ways = [
        [each for each in queues if kind.name in each.kinds and (kind.gpus or not each.gpus_only)]
        for kind in kinds
    ]
    # On a cluster of GPUs alone jobs without one have to get somewhere, too.
    ways.append([each for each in queues if not each.gpus_only])
    opened = set()
    for way in ways:
        weakest = min((each.reserve for each in way), default=0)
        opened |= {each.name for each in way if each.reserve == weakest > 0}
    return [_opened(each) if each.name in opened else each for each in queues]


def _opened(queue: QueueFacts) -> QueueFacts:
    words = f"{queue.origin}; {queue.aside}, and jobs that need its nodes have no better way"
    return replace(queue, aside="", origin=words)


def refused_account(record: dict[str, str], account: str) -> str:
    """Return why a partition is not for an account; empty where it is.

    sbatch takes such a job unless the site has EnforcePartLimits, and it then waits for ever.
    """
    allowed = known(record, "AllowAccounts") or "ALL"
    denied = known(record, "DenyAccounts")
    if allowed.upper() != "ALL" and account not in allowed.split(","):
        return f"it is for the accounts {allowed}, not for {account}"
    if account in denied.split(","):
        return f"it is not for the account {account}"
    return ""


def in_order(queues: Iterable[QueueFacts], default: str | None) -> list[QueueFacts]:
    """Return the queues in which they should be tried: the default one first, those aside last."""
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
