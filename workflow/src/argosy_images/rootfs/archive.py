"""Write tar streams of layers, in the format of registries, and of shares of images.

Layer format: https://github.com/opencontainers/image-spec/blob/main/layer.md. The same layer always gives
the same bytes.
"""

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BufferedReader
from itertools import groupby
from pathlib import Path
from typing import IO, cast

from argosy_common.errors import ArgosyError
from argosy_images.rootfs.flatten import Copies
from argosy_images.rootfs.layers import Change, is_whiteout, walk
from argosy_images.store.scratch import private_folder

WHITEOUT = ".wh."
OPAQUE_MARKER = ".wh..wh..opq"
_CHUNK = 1 << 20

# The last option keeps tar's process id and access times out of the archive.
_OPTIONS = (
    "--format=posix",
    "--no-recursion",
    "--owner=0",
    "--group=0",
    "--numeric-owner",
    "--pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime",
)


def digest_of_layer(diff: Path, change: Change) -> str:
    """Return the layer's diff_id, `sha256:…`: the digest of its tar."""
    with layer_tar(diff, change) as stream:
        digest = hashlib.file_digest(cast(BufferedReader, stream), "sha256")
    return f"sha256:{digest.hexdigest()}"


@contextmanager
def layer_tar(diff: Path, change: Change) -> Iterator[IO[bytes]]:
    """Open the layer as a tar stream.

    Raises:
        ArgosyError: if tar fails, a file changes meanwhile, or a name would mark a removed file.
    """
    with private_folder() as (scratch, _):
        members = [*_members(diff)]
        tree = scratch / "tree"
        tree.mkdir()
        _copy_setuid(diff, tree, change.setuid)
        # Keep the order of the walk, so that the bytes do not depend on which modes are on disk.
        runs = groupby(members, lambda name: name in change.setuid)
        parts = [(tree if is_aside else diff, [*names]) for is_aside, names in runs]
        command: list[str | Path] = ["tar", "--create", *_OPTIONS, "--null"]
        for number, (folder, names) in enumerate((*parts, (tree, _markers(tree, change)))):
            listed = scratch / f"names{number}"
            listed.write_bytes(_terminated(names))
            command += ["--directory", folder, f"--files-from={listed}"]
        with _unchanged(diff, members), _output(command, diff) as stream:
            yield stream


@contextmanager
def files_tar(folder: Path, names: Sequence[str]) -> Iterator[IO[bytes]]:
    """Open some of the files below a folder as a tar stream; raises as `layer_tar`."""
    # An unnamed file disappears even if this process is killed.
    with tempfile.TemporaryFile() as listed:
        listed.write(_terminated(names))
        listed.seek(0)
        command: list[str | Path] = ["tar", "--create", *_OPTIONS, "--null"]
        command += ["--directory", folder, "--files-from=-"]
        with _unchanged(folder, names), _output(command, folder, listed) as stream:
            yield stream


@contextmanager
def _output(
    command: Sequence[str | Path], folder: Path, stdin: IO[bytes] | None = None
) -> Iterator[IO[bytes]]:
    """Open the output of a tar command on the folder."""
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            command, stdin=stdin, stdout=subprocess.PIPE, stderr=said, pipesize=_CHUNK
        )
        assert process.stdout
        with process.stdout:
            yield process.stdout
        # 1: tar believes that a file has changed; `_unchanged` checks that.
        if process.wait() not in (0, 1):
            said.seek(0)
            first = said.read().decode(errors="replace").strip().splitlines()[:1]
            raise ArgosyError(f"{folder}: {' '.join(first) or 'tar failed'}")


@contextmanager
def _unchanged(folder: Path, names: Sequence[str]) -> Iterator[None]:
    """Raise an ArgosyError if a file changes during the block.

    New hard links are no change, since images on the same layers may be frozen or removed. GNU tar before
    1.35 reports them, because they change ctime.
    """
    before = [_state(f"{folder}/{name}") for name in names]
    yield
    for name, state in zip(names, before, strict=True):
        if _state(f"{folder}/{name}") != state:
            raise ArgosyError(
                f"{folder}/{name}: this file changed while it was read",
                "end the program that writes to it, and run this again",
            )


def _state(path: str) -> tuple[int, ...] | None:
    """Return inode, mode, size and mtime of a file; None if it is missing."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return None
    return (status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns)


def _members(diff: Path) -> Iterator[str]:
    for path, entry in walk(diff):
        known = entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False)
        if known or entry.is_symlink() or not is_whiteout(entry.stat(follow_symlinks=False)):
            if path.rpartition("/")[2].startswith(WHITEOUT):
                # In a layer's tar this name would remove a file of the image.
                raise ArgosyError(
                    f"{path}: layers cannot contain names that begin with {WHITEOUT}, since these "
                    "mark removed files",
                    "rename it, or remove it in the same step",
                )
            yield path


def _copy_setuid(diff: Path, tree: Path, modes: Mapping[str, int]) -> None:
    """Copy files to `tree` with their setuid modes in the image, which the disk lacks."""
    copies = Copies()
    for path, mode in modes.items():
        place = tree / path
        place.parent.mkdir(parents=True, exist_ok=True)
        copies.place(str(diff / path), str(place))
        place.chmod(mode)


def _markers(tree: Path, change: Change) -> Iterator[str]:
    """Make the empty files that mark removals; yield their names."""
    for path in change.removed:
        folder, _, name = path.rpartition("/")
        yield _marker(tree, f"{folder}/{WHITEOUT}{name}" if folder else f"{WHITEOUT}{name}")
    for path in change.opaque:
        yield _marker(tree, f"{path}/{OPAQUE_MARKER}")


def _marker(tree: Path, path: str) -> str:
    place = tree / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.touch()
    # The tar must not depend on time or umask.
    place.chmod(0o644)
    os.utime(place, (0, 0))
    return path


def _terminated(names: Iterable[str]) -> bytes:
    """Encode names, which may contain line breaks, for tar --null."""
    return "".join(f"./{name}\0" for name in names).encode("utf-8", "surrogateescape")
