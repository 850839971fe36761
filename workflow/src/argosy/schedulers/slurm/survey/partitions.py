"""Partitions as ways into the cluster, from `scontrol show partition -o` and the limits of their QoS."""

import re
from collections.abc import Iterable, Mapping, Sequence

from argosy.schedulers.cluster_facts import NodeKind, QueueFacts
from argosy.schedulers.slurm import spans
from argosy.schedulers.slurm.survey.records import key_of, known, number

ORIGIN = "scontrol show partition"
SHORT_MINUTES = 60
_FOR_TESTS = re.compile(r"debug|devel?|test|interactive|express", re.IGNORECASE)


def queue_of(
    record: dict[str, str],
    kinds: Sequence[NodeKind],
    highest_tier: int,
    qos_minutes: Mapping[str, float],
) -> QueueFacts:
    """Return a partition as a queue.

    Args:
        record: of scontrol.
        kinds: of its nodes.
        highest_tier: the highest PriorityTier that any partition has.
        qos_minutes: the most that a QoS lets a job ask for, by its name.
    """
    name = record["PartitionName"]
    most = number(record.get("MaxNodes", "")) or number(record.get("TotalNodes", "")) or 1
    total = number(record.get("TotalNodes", "")) or most
    seconds = spans.seconds(record.get("MaxTime", ""))
    limits = [] if seconds is None else [seconds / 60]
    qos = known(record, "QoS")
    limits += [qos_minutes[qos]] if qos in qos_minutes else []
    minutes = min(limits) if limits else None
    by_qos = f", QoS {qos}" if qos in qos_minutes else ""
    return QueueFacts(
        name=name,
        key=key_of(name),
        kinds=tuple(dict.fromkeys(each.name for each in kinds)),
        options={"partition": name},
        nodes=min(most, total),
        minutes=minutes,
        aside=_aside(record, minutes, highest_tier),
        gpus_only=False,
        origin=f"{ORIGIN} {name}{by_qos}",
    )


def _aside(record: dict[str, str], minutes: float | None, highest_tier: int) -> str:
    """Return why jobs should not go there by themselves; empty where they may."""
    tier = number(record.get("PriorityTier", "")) or 0
    mode = known(record, "PreemptMode") or "OFF"
    if mode.partition(",")[0] not in ("OFF", "GANG") and tier < highest_tier:
        return f"its jobs make room for others (PreemptMode={mode})"
    if _FOR_TESTS.search(record["PartitionName"]):
        return "by its name it is for tests"
    if minutes is not None and minutes <= SHORT_MINUTES:
        return f"its jobs have {minutes:.0f} minutes at most"
    return ""


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
            bool(each.aside),
            each.name != default,
            -each.nodes,
            -(each.minutes or float("inf")),
            each.name,
        ),
    )
