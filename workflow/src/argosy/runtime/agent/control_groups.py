"""Control groups of this process: https://docs.kernel.org/admin-guide/cgroup-v2.html, cgroup-v1/."""

from __future__ import annotations

import contextlib
import os
from typing import Iterator


def groups_of(proc: str, root: str, controller: str = "") -> Iterator[str]:
    """Yield the folders of this process's group and its parents below `root`, the innermost first.

    `controller` selects a hierarchy of version 1; empty: version 2.
    """
    with contextlib.suppress(OSError), open(f"{proc}/self/cgroup", errors="replace") as file:
        for line in file:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            folder = os.path.normpath(f"{root}/{path}")
            while controller in controllers.split(",") and folder.startswith(f"{root}/"):
                yield folder
                folder = os.path.dirname(folder)
