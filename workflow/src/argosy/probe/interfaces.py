"""Which interface leads from node to node, as nodes have tried."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from argosy.probe.looks import NodeLook
from argosy.probe.pending_look import Looked
from argosy.probe.values import Value
from argosy.site.values import TO_FILL_IN
from argosy.units import amount

ALIKE = 1.3
"""Two interfaces whose speeds differ by less are of one speed."""


@dataclass(frozen=True)
class Way:
    """One node's try to reach another over an interface that both have; `problem` is empty where it did."""

    start: str
    end: str
    interface: str
    problem: str


def ways_of(looks: Iterable[NodeLook]) -> list[Way]:
    """Return all tries of nodes to reach each other."""
    return [
        Way(look.node, peer, name, problem)
        for look in looks
        for peer, found in look.meeting.peers.items()
        for name, problem in found.items()
    ]


def choose_interface(looked: Sequence[Looked]) -> Value:
    """Return the fastest interface over which the nodes of every kind met, those made for it first."""
    looks = [look for each in looked for look in each.looks]
    tries = [found for look in looks for found in look.meeting.peers.values()]
    if not tries:
        return _only_interface(looked)
    problems = {name: said for found in tries for name, said in found.items() if said}
    speeds: dict[str, float] = {}
    for look in looks:
        for name, found in look.meeting.interfaces.items():
            speeds[name] = min(found.bytes_per_s, speeds.get(name, math.inf))
    everywhere = set.intersection(*(set(found) for found in tries))
    reached = {name: speeds.get(name, 0.0) for name in everywhere - problems.keys()}
    tried = ", ".join(
        f"{name} ({problems[name]})"
        if name in problems
        else f"{name} {amount(int(speeds.get(name, 0)))}/s"
        for name in sorted({name for found in tries for name in found})
    )
    if not reached:
        return Value(TO_FILL_IN, f"over none of them two nodes reached each other: {tried}")
    fast = {
        each.name
        for one in looked
        for look in one.looks
        for each in look.interfaces
        if each.infiniband or each.name.startswith(("hsn", "ib", "opa"))
    }
    best = max(reached.values())
    alike = [name for name, speed in reached.items() if speed * ALIKE >= best]
    chosen = min(alike, key=lambda name: (name not in fast, -reached[name], name))
    return Value(chosen, f"two nodes reached each other over it: {tried}")


def _only_interface(looked: Sequence[Looked]) -> Value:
    names = sorted({each.name for one in looked for look in one.looks for each in look.interfaces})
    if len(names) == 1:
        return Value(names[0], "the only one that nodes have; no two nodes could be asked together")
    words = f"; they have {', '.join(names)}" if names else ""
    return Value(TO_FILL_IN, f"no two nodes could be asked together{words}")
