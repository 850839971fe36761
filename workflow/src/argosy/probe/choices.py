"""Chooses a site's interface and temporary folder, and lists absent folders, from its nodes' reports."""

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from argosy.probe.look_jobs import Looked
from argosy.probe.looks import SCRATCH, NodeLook, Scratch
from argosy.site.values import FOLDER, TO_FILL_IN
from argosy_common.units import amount


@dataclass(frozen=True)
class Value:
    """A key's value and its origin in words."""

    value: Any
    origin: str = ""


Draft = Mapping[str, Any]
"""Keys of a site's file; each has a `Value` or a nested draft."""


ON_THE_NETWORK = frozenset(
    {"nfs", "nfs4", "lustre", "gpfs", "beegfs", "ceph", "cifs", "panfs", "wekafs", "9p", "afs"}
)
IN_MEMORY = frozenset({"tmpfs", "ramfs"})


def choose_tmpdir(looks: Sequence[NodeLook]) -> Value | None:
    """Return the best folder for temporary files common to all nodes."""
    if not looks:
        return None
    offered = [{each.written: each for each in look.scratch if _is_good(each)} for look in looks]
    common = set.intersection(*(set(each) for each in offered))
    if not common:
        return None
    first = offered[0]
    chosen = min(common, key=lambda name: _order_of_choice(first[name]))
    found = first[chosen]
    where = f"is {found.folder} in a job, " if chosen.startswith("$") else ""
    memory = ", which is memory" if found.kind in IN_MEMORY else ""
    return Value(
        chosen,
        f"{where}{found.kind}{memory}, {amount(found.free_mib << 20)} free on {looks[0].node}"
        + ("" if found.runs_programs else "; programs in it do not run (noexec)"),
    )


def _is_good(scratch: Scratch) -> bool:
    """Return whether a folder is usable, local to the node and, if a variable, set by the job."""
    name = scratch.written[1:] if scratch.written.startswith("$") else ""
    # A value that is set on this machine too, or is a common folder, was not set by the job.
    is_of_here = bool(name) and scratch.folder in (os.environ.get(name), *SCRATCH)
    is_own = scratch.kind not in ON_THE_NETWORK and not scratch.kind.startswith("fuse")
    return (
        scratch.writable and is_own and not is_of_here and bool(FOLDER.fullmatch(scratch.written))
    )


def _order_of_choice(scratch: Scratch) -> tuple[bool, bool, bool, int, str]:
    # By size, since free space changes from look to look.
    return (
        scratch.kind in IN_MEMORY,
        not scratch.runs_programs,
        not scratch.written.startswith("$"),
        -scratch.size_mib,
        scratch.written,
    )


def absent_folders(looks: Sequence[NodeLook]) -> dict[str, Value]:
    """Return this machine's folders that a node lacks, each with a remedy."""
    return {
        folder: Value(
            "move the project to a folder that compute nodes have", f"{look.node} lacks it"
        )
        for look in looks
        for folder in look.absent
        if FOLDER.fullmatch(folder)
    }


ALIKE = 1.3
"""Speeds that differ by a smaller factor count as equal."""


@dataclass(frozen=True)
class Way:
    """A connection from node to node over an interface of both; `problem` is empty on success."""

    start: str
    end: str
    interface: str
    problem: str


def ways_of(looks: Iterable[NodeLook]) -> list[Way]:
    """Return all connections that nodes tried."""
    return [
        Way(look.node, peer, name, problem)
        for look in looks
        for peer, found in look.meeting.peers.items()
        for name, problem in found.items()
    ]


def choose_interface(looked: Sequence[Looked]) -> Value:
    """Return the fastest interface that connects nodes of every kind; prefer high-speed networks."""
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
        return Value(TO_FILL_IN, f"two nodes did not reach each other over any of them: {tried}")
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
        return Value(names[0], "the only one that nodes have; no two nodes were inspected together")
    words = f"; they have {', '.join(names)}" if names else ""
    return Value(TO_FILL_IN, f"no two nodes were inspected together{words}")
