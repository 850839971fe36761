"""The interface, the temporary folder and the absent folders of a site, as its nodes found them."""

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from argosy.probe.look_jobs import Looked
from argosy.probe.looks import SCRATCH, NodeLook, Scratch
from argosy.site.values import FOLDER, TO_FILL_IN
from argosy.units import amount


@dataclass(frozen=True)
class Value:
    """A key's value, and where it comes from in words."""

    value: Any
    origin: str = ""


Draft = Mapping[str, Any]
"""Keys of a site's file: of a `Value`, or of a mapping of the same."""


ON_THE_NETWORK = frozenset(
    {"nfs", "nfs4", "lustre", "gpfs", "beegfs", "ceph", "cifs", "panfs", "wekafs", "9p", "afs"}
)
IN_MEMORY = frozenset({"tmpfs", "ramfs"})


def choose_tmpdir(looks: Sequence[NodeLook]) -> Value | None:
    """Return the best folder for temporary files that every node has."""
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
    """Whether it is a node's own and the job's: a variable that is the same here is not the job's."""
    name = scratch.written[1:] if scratch.written.startswith("$") else ""
    # What every job finds there without it, or what it is here as well, is not the job's.
    is_of_here = bool(name) and scratch.folder in (os.environ.get(name), *SCRATCH)
    is_own = scratch.kind not in ON_THE_NETWORK and not scratch.kind.startswith("fuse")
    return (
        scratch.writable and is_own and not is_of_here and bool(FOLDER.fullmatch(scratch.written))
    )


def _order_of_choice(scratch: Scratch) -> tuple[bool, bool, bool, int, str]:
    # By size and not by free space, which changes between two looks at one disk.
    return (
        scratch.kind in IN_MEMORY,
        not scratch.runs_programs,
        not scratch.written.startswith("$"),
        -scratch.size_mib,
        scratch.written,
    )


def absent_folders(looks: Sequence[NodeLook]) -> dict[str, Value]:
    """Return the folders of this machine that some node lacks, and what to do instead."""
    return {
        folder: Value(
            "move the project to a folder that compute nodes have", f"{look.node} lacks it"
        )
        for look in looks
        for folder in look.absent
        if FOLDER.fullmatch(folder)
    }


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
