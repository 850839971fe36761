"""A step's layer: what changed in a root file system, as an OCI layer tar.

Format: https://github.com/opencontainers/image-spec/blob/main/layer.md (whiteouts `.wh.NAME`).
Owners are not kept: a user without root has only one id to give.
"""

import hashlib
import os
import stat
import subprocess
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from argosy.errors import ArgosyError

WHITEOUT = ".wh."

# Made by the container runtime or rewritten at each start; never part of a layer.
TRANSIENT = ("dev", "proc", "sys", "tmp", "run", "etc/resolv.conf", "etc/hosts", ".bind_host_files")

Snapshot = dict[str, tuple[int, ...]]
"""Relative path to what changes when the file does: type and mode, size, times, inode."""


@dataclass(frozen=True)
class Change:
    """Paths relative to the root: those added or changed, and those gone."""

    changed: tuple[str, ...]
    removed: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.changed or self.removed)


def snapshot(root: Path) -> Snapshot:
    """The state of all that can be part of a layer. The change time catches what mtime would not."""
    return {path: _fingerprint(status) for path, status in _walk(root, "")}


def _walk(root: Path, folder: str) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(root / folder) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    for entry in found:
        path = f"{folder}/{entry.name}" if folder else entry.name
        status = entry.stat(follow_symlinks=False)
        yield path, status
        if entry.is_dir(follow_symlinks=False) and path not in TRANSIENT:
            yield from _walk(root, path)


def _fingerprint(status: os.stat_result) -> tuple[int, ...]:
    if stat.S_ISDIR(status.st_mode):
        return (status.st_mode,)
    return (status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


def difference(before: Snapshot, after: Snapshot) -> Change:
    """What turns the one state into the other."""
    files = {path for path in TRANSIENT if "/" in path}
    changed = [path for path, state in after.items() if before.get(path) != state]
    removed = [path for path in before if path not in after or _lost_folder(path, before, after)]
    gone = set(removed)
    return Change(
        tuple(path for path in changed if path not in files),
        # The whiteout of a folder takes all below it along.
        tuple(
            path for path in removed if path.rpartition("/")[0] not in gone and path not in files
        ),
    )


def _lost_folder(path: str, before: Snapshot, after: Snapshot) -> bool:
    """A folder in whose place there is something else now, such as a link: its content is gone."""
    return stat.S_ISDIR(before[path][0]) and not stat.S_ISDIR(after[path][0])


def pack(root: Path, change: Change, layer: Path) -> str:
    """Write the change as a tar; returns its digest, `sha256:…`.

    Raises:
        ArgosyError: when tar fails, for instance on a full disk.
    """
    # Without the last option tar would put its own process id and access times into the archive.
    options = ["--format=posix", "--no-recursion", "--owner=0", "--group=0", "--numeric-owner"]
    options += ["--pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime"]
    _run(["tar", "--create", "--file", layer, *options, *_listed_in(root)], change.changed)
    with tempfile.TemporaryDirectory(prefix="argosy-") as folder:
        markers = [_marker(Path(folder), path) for path in change.removed]
        if markers:
            _run(["tar", "--append", "--file", layer, *options, *_listed_in(Path(folder))], markers)
    return digest_of(layer)


def _marker(folder: Path, path: str) -> str:
    """Make the empty file that stands for the removal of `path`."""
    parent, _, name = path.rpartition("/")
    marker = folder / parent / f"{WHITEOUT}{name}"
    marker.parent.mkdir(parents=True, exist_ok=True)
    marker.touch()
    return str(marker.relative_to(folder))


def _listed_in(folder: Path) -> list[str | Path]:
    return ["--directory", folder, "--null", "--files-from=-"]


def unpack(layer: Path, root: Path) -> None:
    """Apply a layer that `pack` made to `root`.

    Removals come first: they speak of the state below, where a folder is not yet, say, a link to
    somewhere else. tar itself refuses members that lead out of `root`: absolute names lose their
    slash, `..` is skipped, and symbolic links are made last.
    """
    for path in _whiteouts(layer):
        _remove(root, path)
    options = ["--no-same-owner", "--preserve-permissions", "--delay-directory-restore"]
    options += ["--unlink-first", f"--exclude={WHITEOUT}*"]
    _run(["tar", "--extract", "--file", layer, "--directory", root, *options], ())


def _whiteouts(layer: Path) -> Iterator[str]:
    """The paths that a layer removes; read by name, as tar's own listing is for people."""
    with tarfile.open(layer, errors="surrogateescape") as archive:
        for name in archive.getnames():
            folder, _, base = name.removeprefix("./").rpartition("/")
            if base.startswith(WHITEOUT):
                yield f"{folder}/{base.removeprefix(WHITEOUT)}".lstrip("/")


def _remove(root: Path, path: str) -> None:
    target = root / path
    if not target.parent.resolve().is_relative_to(root.resolve()):
        raise ArgosyError(f"{root}: a layer asks to remove {path}, which lies outside of the image")
    if target.is_dir() and not target.is_symlink():
        subprocess.run(["rm", "-rf", "--", target], check=True)
    else:
        target.unlink(missing_ok=True)


def _run(command: Sequence[str | Path], names: Iterable[str]) -> None:
    listed = "".join(f"./{name}\0" for name in names).encode("utf-8", "surrogateescape")
    done = subprocess.run(command, input=listed, capture_output=True)
    if done.returncode != 0:
        message = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise ArgosyError(f"{command[3]}: {' '.join(message) or 'tar failed'}")


def digest_of(path: Path) -> str:
    """The file's digest, `sha256:…`."""
    with path.open("rb") as stream:
        return f"sha256:{hashlib.file_digest(stream, 'sha256').hexdigest()}"
