"""Whose memory was at its end when the kernel killed a process: the job's, or the node's.

Control groups of either version count how often their limit was met and how often one of their processes
was killed for it (https://docs.kernel.org/admin-guide/cgroup-v2.html, cgroup-v1/memory.html).
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass

from ..control_groups import groups_of

_OF_A_USER = "user.slice"  # of systemd, around all of somebody's sessions
_UNLIMITED = 1 << 60  # version 1 says this or more for no limit
NODE = "the node ran out of memory; the job reached no limit"
UNKNOWN = (
    "a process of this node was killed at that time, since memory ran out: the job's limit "
    "(`resources.memory_per_rank`) was reached, or else the node's memory"
)


@dataclass(frozen=True)
class MemoryKills:
    """Counts of one moment.

    `visible`: the job's groups can be seen from here; `limit` is the innermost of theirs, in bytes,
    None without one. `is_own`: the group with the limit is a job's, and not of all that a user runs.
    """

    on_node: int = 0
    in_job: int = 0
    limit_met: int = 0
    limit: int | None = None
    visible: bool = False
    is_own: bool = False


def memory_kills(proc: str = "/proc", sys: str = "/sys") -> MemoryKills:
    """Return what is counted now; 0 where it cannot be read."""
    on_node = _counts(f"{proc}/vmstat").get("oom_kill", 0)
    root = os.path.normpath(f"{sys}/fs/cgroup")
    for read, groups in (
        (_of_version_2, groups_of(proc, root)),
        (_of_version_1, groups_of(proc, f"{root}/memory", "memory")),
    ):
        killed, visible = 0, False
        for folder in groups:
            with contextlib.suppress(OSError, ValueError, KeyError):
                limit, killed_here, met = read(folder)
                # Version 1 counts a kill in the process's own group, which may be without a limit.
                killed, visible = max(killed, killed_here), True
                if limit is not None:
                    is_own = _OF_A_USER not in folder.split("/")
                    return MemoryKills(on_node, killed, met, limit, visible, is_own)
        if visible:
            return MemoryKills(on_node, killed, visible=True)
    return MemoryKills(on_node)


def why_killed(before: MemoryKills, after: MemoryKills) -> str:
    """Return why SIGKILL came where it was for want of memory; "" where not, or not known."""
    if not after.visible:
        return UNKNOWN if after.on_node > before.on_node else ""
    if after.in_job == before.in_job:
        return ""
    if after.limit is not None and after.limit_met > before.limit_met:
        return (
            f"the job's memory limit on this node, {after.limit / 2**30:.3g} GiB, was reached; "
            "raise `resources.memory_per_rank`"
        )
    return NODE


def kills_in_job(before: MemoryKills, after: MemoryKills) -> int:
    """Return how many processes of the job were killed for memory here; 0 where others may be meant."""
    return max(0, after.in_job - before.in_job) if before.is_own and after.is_own else 0


def _of_version_2(folder: str) -> tuple[int | None, int, int]:
    text = _text(f"{folder}/memory.max")
    events = _counts(f"{folder}/memory.events")
    return None if text == "max" else int(text), events["oom_kill"], events["oom"]


def _of_version_1(folder: str) -> tuple[int | None, int, int]:
    limit = int(_text(f"{folder}/memory.limit_in_bytes"))
    met = int(_text(f"{folder}/memory.failcnt"))
    # Older kernels do not count here.
    killed = _counts(f"{folder}/memory.oom_control")["oom_kill"]
    return limit if limit < _UNLIMITED else None, killed, met


def _counts(path: str) -> dict[str, int]:
    """Return lines of a name and a number."""
    try:
        lines = [line.split() for line in _text(path).splitlines()]
    except OSError:
        return {}
    return {words[0]: int(words[1]) for words in lines if len(words) == 2 and words[1].isdigit()}


def _text(path: str) -> str:
    with open(path, encoding="ascii") as file:
        return file.read().strip()
