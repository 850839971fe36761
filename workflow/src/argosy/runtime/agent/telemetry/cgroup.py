"""Where this process's control group of version 2 is, if there is one and it can be seen from here.

https://docs.kernel.org/admin-guide/cgroup-v2.html
"""

from __future__ import annotations

import os

from .reading import UnreadError, read_text


def own_group(proc: str = "/proc", sys: str = "/sys") -> str:
    """Return the folder of the group that this process, and so its ranks, are in.

    Raises:
        OSError: the kernel does not say.
        UnreadError: there is no such group, or it is that of the whole node.
    """
    root = group_root(sys)
    if not os.path.exists(f"{root}/cgroup.controllers"):
        raise UnreadError(f"there are no control groups of version 2 at {root}")
    for line in read_text(f"{proc}/self/cgroup").splitlines():
        if line.startswith("0::"):
            folder = os.path.normpath(f"{root}/{line[len('0::') :]}")
            if folder == root:
                raise UnreadError("the agent sees no control group of its own")
            return folder
    raise UnreadError("the agent is in no control group of version 2")


def limited_group(proc: str = "/proc", sys: str = "/sys") -> str | None:
    """Return the nearest group around this process whose memory has a limit; None without one."""
    root = group_root(sys)
    try:
        folder = own_group(proc, sys)
    except (OSError, UnreadError):
        return None
    while folder.startswith(f"{root}/"):
        if _has_limit(folder):
            return folder
        folder = os.path.dirname(folder)
    return None


def group_root(sys: str) -> str:
    """Return where the groups are mounted."""
    return os.path.normpath(f"{sys}/fs/cgroup")


def _has_limit(folder: str) -> bool:
    try:
        return read_text(f"{folder}/memory.max").strip() != "max"
    except OSError:
        return False
