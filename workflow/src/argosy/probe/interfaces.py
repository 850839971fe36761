"""Which interface leads from node to node, as nodes have tried."""

from collections.abc import Iterable, Mapping, Sequence

from argosy.probe.look_jobs import Looked
from argosy.probe.looks import Connection
from argosy.probe.values import Value
from argosy.site.values import TO_FILL_IN
from argosy.units import amount

ALIKE = 1.3
"""Two interfaces whose speeds differ by less are of one speed."""


def _meetings(looked: Iterable[Looked]) -> list[Mapping[str, Connection]]:
    """Return what the second nodes found, of each kind that had two."""
    return [look.meeting.interfaces for each in looked for look in each.looks[1:]]


def choose_interface(looked: Sequence[Looked]) -> Value:
    """Return the fastest interface over which the two nodes of every kind met."""
    meetings = _meetings(looked)
    if not meetings:
        return _only_interface(looked)
    reached = {
        name: min(meeting[name].bytes_per_s for meeting in meetings)
        for name in set.intersection(*(set(each) for each in meetings))
        if all(not meeting[name].problem for meeting in meetings)
    }
    names = sorted({name for meeting in meetings for name in meeting})
    tried = ", ".join(f"{name} {_slowest(name, meetings)}" for name in names)
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


def _slowest(name: str, meetings: Sequence[Mapping[str, Connection]]) -> str:
    """Return what is wrong with an interface on some nodes, or else the least of its speeds."""
    found = [meeting[name] for meeting in meetings if name in meeting]
    problems = [each.problem for each in found if each.problem]
    if problems:
        return f"({problems[0]})"
    return f"{amount(int(min(each.bytes_per_s for each in found)))}/s"


def _only_interface(looked: Sequence[Looked]) -> Value:
    names = sorted({each.name for one in looked for look in one.looks for each in look.interfaces})
    if len(names) == 1:
        return Value(names[0], "the only one that nodes have; no two nodes could be asked together")
    words = f"; they have {', '.join(names)}" if names else ""
    return Value(TO_FILL_IN, f"no two nodes could be asked together{words}")
