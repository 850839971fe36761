"""How folders of the host are mounted so that what runs inside cannot change them."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from argosy.images.engines.runc import Mount

_TABLE = Path("/proc/self/mountinfo")


def mount_flags(source: Path) -> list[str]:
    """Return the options of a folder's mount: no setuid programs, no devices.

    Where the host forbids to run programs from there, an unprivileged mount has to forbid it too.
    """
    forbids = os.statvfs(source).f_flag & os.ST_NOEXEC
    return ["nosuid", "nodev", *(["noexec"] if forbids else [])]


def mounts_below(source: Path, target: str) -> Iterator[Mount]:
    """Yield what is mounted below a folder of the host, read-only, as seen below `target`."""
    for line in _TABLE.read_text(encoding="utf-8", errors="surrogateescape").splitlines():
        place = Path(_unescaped(line.split()[4]))
        if source in place.parents and place.is_dir():
            inner = f"{target}/{place.relative_to(source)}"
            yield Mount(place, inner, False, mount_flags(place))


def _unescaped(path: str) -> str:
    """Return a path of the table, where white space stands as \\040."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), path)
