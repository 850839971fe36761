"""Files of the host that no image may touch, and builds of hostile images beside them."""

import os
import stat
from pathlib import Path

SECRET = "the host's own secret"


def make_canaries(folder: Path) -> Path:
    """Make a folder like a home, with what a hostile image would like to change, take or delete."""
    (folder / "folder/inner").mkdir(parents=True)
    (folder / "empty-folder").mkdir()
    (folder / "empty-file").touch()
    for name in ("file", "f", "secret", "folder/f", "folder/inner/secret", ".bashrc"):
        (folder / name).write_text(SECRET)
        (folder / name).chmod(0o600)
    (folder / "folder").chmod(0o750)
    for path in [folder, *folder.rglob("*")]:
        os.utime(path, (1_000_000_000, 1_000_000_000))
    return folder


def state(folder: Path) -> dict[str, tuple[object, ...]]:
    """All that is in a folder: kind, mode, times but that of reading, links and content."""
    return {
        str(path.relative_to(folder)): _described(path) for path in [folder, *folder.rglob("*")]
    }


def _described(path: Path) -> tuple[object, ...]:
    status = path.lstat()
    is_file = stat.S_ISREG(status.st_mode)
    times = (status.st_mtime_ns, status.st_ctime_ns, status.st_nlink)
    return (status.st_mode, *times, path.read_bytes() if is_file else b"")


def holds_secret(root: Path) -> list[Path]:
    """Files in a tree of the test's own, no link followed, in which the host's secret is.

    Folders and files without permission to read are given it.
    """
    found = []
    for folder, folders, names in os.walk(root):
        for name in folders:
            path = Path(folder) / name
            if not path.is_symlink():
                path.chmod(0o700)
        for name in names:
            path = Path(folder) / name
            if stat.S_ISREG(path.lstat().st_mode):
                if not os.access(path, os.R_OK):
                    path.chmod(0o600)
                if SECRET.encode() in path.read_bytes():
                    found.append(path)
    return found
