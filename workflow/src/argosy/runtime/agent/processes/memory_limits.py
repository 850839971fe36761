"""Whether the kernel killed a process at the job's memory limit, or because the node ran out of memory.

Control groups of both versions count how often their limit was reached and how many processes were
killed for it (https://docs.kernel.org/admin-guide/cgroup-v2.html, cgroup-v1/memory.html).
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from ..kernel_files import groups_of, numbers_in, read_text

_OF_A_USER = "user.slice"  # systemd's group of all sessions of a user
_UNLIMITED = 1 << 60  # version 1 reports this or more if there is no limit
NODE = "the node ran out of memory; the job reached no limit"
UNKNOWN = (
    "the kernel killed a process of this node for lack of memory at that time: the job reached its limit "
    "(`resources.memory_per_rank`), or the node ran out of memory"
)


@dataclass(frozen=True)
class MemoryKills:
    """Counters at one moment.

    `visible`: the job's groups are visible here. `limit`: their innermost limit in bytes, or None.
    `is_own`: the limit is the job's, not the user's over all sessions.
    """

    on_node: int = 0
    in_job: int = 0
    limit_met: int = 0
    limit: int | None = None
    visible: bool = False
    is_own: bool = False


def memory_kills(proc: str = "/proc", sys: str = "/sys") -> MemoryKills:
    """Read the counters; those that cannot be read are 0."""
    on_node = 0
    with contextlib.suppress(OSError):
        on_node = numbers_in(f"{proc}/vmstat").get("oom_kill", 0)
    for read, groups in (
        (_of_version_2, groups_of(proc, sys)),
        (_of_version_1, groups_of(proc, sys, "memory")),
    ):
        killed, visible = 0, False
        for folder in groups:
            with contextlib.suppress(OSError, ValueError, KeyError):
                limit, killed_here, met = read(folder)
                # Version 1 counts a kill in the process's own group, which may have no limit.
                killed, visible = max(killed, killed_here), True
                if limit is not None:
                    is_own = _OF_A_USER not in folder.split("/")
                    return MemoryKills(on_node, killed, met, limit, visible, is_own)
        if visible:
            return MemoryKills(on_node, killed, visible=True)
    return MemoryKills(on_node)


def why_killed(before: MemoryKills, after: MemoryKills) -> str:
    """Return the cause of a SIGKILL if it was lack of memory; empty if not, or if unknown."""
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
    """Count processes of the job killed for lack of memory; 0 if the counters include other jobs."""
    return max(0, after.in_job - before.in_job) if before.is_own and after.is_own else 0


def _of_version_2(folder: str) -> tuple[int | None, int, int]:
    text = read_text(f"{folder}/memory.max").strip()
    events = numbers_in(f"{folder}/memory.events")
    return None if text == "max" else int(text), events["oom_kill"], events["oom"]


def _of_version_1(folder: str) -> tuple[int | None, int, int]:
    limit = int(read_text(f"{folder}/memory.limit_in_bytes"))
    met = int(read_text(f"{folder}/memory.failcnt"))
    # Older kernels have no such count (KeyError).
    killed = numbers_in(f"{folder}/memory.oom_control")["oom_kill"]
    return limit if limit < _UNLIMITED else None, killed, met
