"""Folders of nodes: where temporary files may lie, and which of this machine's nodes lack."""

import os
from collections.abc import Sequence

from argosy.probe.looks import NodeLook, Scratch
from argosy.probe.questions import SCRATCH
from argosy.probe.values import Value
from argosy.site.values import FOLDER
from argosy.units import amount

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
    chosen = min(common, key=lambda name: _rank(first[name]))
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


def _rank(scratch: Scratch) -> tuple[bool, bool, bool, int, str]:
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
