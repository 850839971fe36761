"""Readers of /proc and /sys: texts, named numbers, status of processes, and control groups.

https://docs.kernel.org/filesystems/proc.html
https://docs.kernel.org/admin-guide/cgroup-v2.html, https://docs.kernel.org/admin-guide/cgroup-v1/
"""

from __future__ import annotations

import contextlib
import os
from typing import Iterator


def read_text(path: str) -> str:
    """Return the content of a small file of the kernel. Raises OSError."""
    with open(path, "rb", buffering=0) as file:
        return file.read().decode("utf-8", "replace")


def numbers_in(path: str) -> dict[str, int]:
    """Parse lines such as `oom_kill 3` and `MemTotal: 1000 kB`, by name. Raises OSError."""
    rows = (line.replace(":", " ").split() for line in read_text(path).splitlines())
    return {words[0]: int(words[1]) for words in rows if len(words) > 1 and words[1].isdigit()}


def status_of(pid: int | str, name: str) -> str:
    """Return a value of /proc/<pid>/status (proc(5)), such as `TracerPid`; empty if it cannot be read."""
    with contextlib.suppress(OSError):
        for line in read_text(f"/proc/{pid}/status").splitlines():
            key, _, value = line.partition(":")
            if key == name:
                return value.strip()
    return ""


def groups_of(proc: str, sys: str, controller: str = "") -> Iterator[str]:
    """Yield the folders of this process's control group and its parents, the innermost first.

    `controller` selects a hierarchy of version 1; empty: version 2.
    """
    root = os.path.normpath(f"{sys}/fs/cgroup/{controller}")
    with contextlib.suppress(OSError):
        for line in read_text(f"{proc}/self/cgroup").splitlines():
            _, controllers, path = line.split(":", 2)
            folder = os.path.normpath(f"{root}/{path}")
            while controller in controllers.split(",") and folder.startswith(f"{root}/"):
                yield folder
                folder = os.path.dirname(folder)
