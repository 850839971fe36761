"""Which part of what a script asks for the nodes of its partition do not give."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from argosy.schedulers.slurm import gres
from argosy.schedulers.slurm.given import mebibytes
from argosy.schedulers.slurm.nodes import Node, in_partition

Values = Mapping[str, str | None]

_SHOWN = 3
"""How many names stand in a message."""


@dataclass(frozen=True)
class Shortage:
    """There are too few nodes that give what these options of the script ask for; why, in words."""

    options: tuple[str, ...]
    words: str


@dataclass(frozen=True)
class Wait:
    """There are enough nodes that would do, but too many of them are away now; which, in words."""

    words: str


@dataclass(frozen=True)
class _Demand:
    """What an option asks of each node: whether one gives it, and what they have, in words."""

    option: str
    given_by: Callable[[Node], bool]
    most: Callable[[Sequence[Node]], str]


def find_shortage(values: Values, nodes: list[Node]) -> Shortage | Wait | None:
    """Return why Slurm has no nodes for a script with these options; None where that cannot be told.

    Args:
        nodes: of all partitions.
    """
    here = in_partition(values.get("partition"), nodes)
    wanted = int(values.get("nodes") or 1)
    if not here:
        return None
    of = f"nodes of partition {here[0].partition}"
    if len(here) < wanted:
        return Shortage(("nodes",), f"it asks for {wanted} nodes, there are {len(here)} {of}")
    suited = here
    demands = list(_demands(values, nodes))
    for demand in demands:
        giving = [each for each in here if demand.given_by(each)]
        if len(giving) < wanted:
            asked = f"it asks {wanted} {of} for {demand.option}={values[demand.option]}"
            words = f"{asked}; {len(giving)} of {len(here)} give it ({demand.most(here)})"
            return Shortage((demand.option,), words)
        suited = [each for each in suited if each in giving]
    if len(suited) < wanted:
        options = tuple(demand.option for demand in demands)
        return Shortage(options, f"{len(suited)} of {len(here)} {of} give all of it together")
    away = [each for each in suited if each.away]
    if len(suited) - len(away) < wanted:
        return Wait(f"of {len(suited)} {of} that suit, {_described(away)}")
    return None


def _demands(values: Values, nodes: Sequence[Node]) -> Iterator[_Demand]:
    if (cpus := values.get("cpus-per-task")) and cpus.isdigit():
        count = int(cpus)
        yield _Demand("cpus-per-task", lambda node: node.cpus >= count, _most_cpus)
        if each := mebibytes(values.get("mem-per-cpu")):
            total = each * count
            yield _Demand("mem-per-cpu", lambda node: node.memory >= total, _most_memory)
    if memory := mebibytes(values.get("mem")):
        yield _Demand("mem", lambda node: node.memory >= memory, _most_memory)
    # Some sites do not tell which gres there are.
    if any(each.gres for each in nodes):
        for option in gres.GPU_OPTIONS:
            if asked := gres.asked(option, values.get(option)):
                yield _Demand(option, _gives(asked), _kinds)
    constraint = values.get("constraint") or ""
    if re.fullmatch(r"[\w.-]+(?:&[\w.-]+)*", constraint):
        features = frozenset(constraint.split("&"))
        yield _Demand("constraint", lambda node: features <= node.features, _features)


def _gives(asked: Mapping[str, int]) -> Callable[[Node], bool]:
    return lambda node: all(node.gres.get(kind, 0) >= count for kind, count in asked.items())


def _most_cpus(here: Sequence[Node]) -> str:
    return f"the largest has {max(each.cpus for each in here)} CPUs"


def _most_memory(here: Sequence[Node]) -> str:
    return f"the largest has {max(each.memory for each in here)}M"


def _kinds(here: Sequence[Node]) -> str:
    found = {f"{kind}:{count}" for each in here for kind, count in each.gres.items()}
    return f"they have {_some(sorted(found, key=len, reverse=True)) or 'none'}"


def _features(here: Sequence[Node]) -> str:
    found = {name for each in here for name in each.features}
    return f"they have {_some(sorted(found))}"


def _described(away: Sequence[Node]) -> str:
    """Return how many nodes are away, which, and what the site says of them."""
    states = sorted({each.state for each in away})
    reasons = sorted({each.reason for each in away if each.reason})
    why = f": {_some(reasons)}" if reasons else ""
    names = _some([each.name for each in away])
    return f"{len(away)} take no jobs now ({names}; {', '.join(states)}{why})"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more}"
