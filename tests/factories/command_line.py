"""Commands that run in this process, and what they leave in a project."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Done:
    """What a command left."""

    status: int
    out: str
    err: str


Argosy = Callable[..., Done]


def snapshot(folder: Path) -> dict[str, tuple[int, int]]:
    """Return each file's and folder's time and size."""
    paths = [folder, *folder.rglob("*")]
    return {str(path): (path.lstat().st_mtime_ns, path.lstat().st_size) for path in paths}


def allow_all(folder: Path) -> None:
    """Give back the permissions that a test has taken."""
    folder.chmod(0o700)
    for top, folders, _ in os.walk(folder):
        for name in folders:
            if not (path := Path(top) / name).is_symlink():
                path.chmod(0o700)
