"""Unpack the tar of an untrusted layer, and verify its digests.

Every member must lie in the layer's folder, below real folders; links that were unpacked before are never
followed. Names may begin with a slash, as kaniko's do. Owners and extended attributes are dropped. Devices
are refused, except below /dev, which every container mounts anew.
"""

import io
import os
import posixpath
import stat
import tarfile
from collections.abc import Sequence
from gzip import BadGzipFile
from pathlib import Path
from typing import NoReturn

from pydantic import ValidationError

from argosy_common.disk import BLOCK, remove_tree, why_no_room
from argosy_common.errors import ArgosyError
from argosy_common.units import amount
from argosy_images.interchange.incoming import IncomingImage, IncomingLayer
from argosy_images.interchange.members import (
    LONGEST_QUOTED,
    LayerTar,
    Tar,
    moment_of,
    pieces_of,
    write,
)
from argosy_images.interchange.opening import Archive
from argosy_images.interchange.streams import (
    CHUNK,
    DAMAGE,
    MOST_AFTER_END,
    Hashing,
    decompressed,
    explain_damage,
)
from argosy_images.oci import ImageConfig
from argosy_images.rootfs.archive import OPAQUE_MARKER, WHITEOUT
from argosy_images.rootfs.flatten import link
from argosy_images.rootfs.layers import (
    DEEPEST,
    Change,
    Layer,
    find_below,
    mark_for_overlay,
    read_overlay,
    status_of,
)

LONGEST_NAME = 255
"""Bytes of one part of a path (NAME_MAX)."""

MOST_HOLES = 32 << 30
"""Bytes of all holes in a layer's sparse files. Nobody transfers holes, but each digest reads them."""

_AUFS_NOTES = WHITEOUT * 2
"""Prefix of AUFS' own files in the root of a layer, which are not part of the image."""
_AUFS_LINKED = f"{_AUFS_NOTES}plnk"
"""AUFS' folder of files with several hard links."""


def unpack(stream: Hashing, diff: Path, below: Sequence[Layer], where: str) -> Change:
    """Unpack a layer's tar into the new folder `diff`, on top of the layers `below`, the lowest first.

    Args:
        where: prefix of messages: the file and the layer.

    Raises:
        ArgosyError: if a member is refused, or the tar is damaged or does not fit on the disk.
    """
    diff.mkdir(mode=0o700)
    unpacker = _Unpacker(diff, below, where)
    try:
        unpacker.take_all(io.BufferedReader(stream, CHUNK))
    except DAMAGE as problem:
        raise ArgosyError(f"{where}: {explain_damage(problem)}") from None
    try:
        return unpacker.finish()
    except OSError as problem:
        raise ArgosyError(f"{where}: {problem.strerror or problem}") from None


class _Unpacker:
    """Unpacks one layer."""

    def __init__(self, diff: Path, below: Sequence[Layer], where: str) -> None:
        self._diff = diff
        self._below = [*reversed(below)]
        self._where = where
        self._holes = 0
        self._removed: dict[str, None] = {}
        self._opaque: dict[str, None] = {}
        # Mode and time of folders are set at the end, since new files would change the time.
        self._folders: dict[str, tuple[int, int]] = {"": (0o755, 0)}
        self._aufs_linked = diff.with_name(f"{diff.name}.aufs")

    def take_all(self, stream: io.BufferedReader) -> None:
        """Unpack the members of a tar; an empty file is a layer without changes."""
        if not stream.peek(1):
            return
        with LayerTar.open(fileobj=stream, mode="r|", bufsize=CHUNK) as archive:
            for member in archive:
                self.take(archive, member)
                # tarfile would keep all members in memory.
                archive.members = []  # type: ignore[attr-defined]

    def take(self, archive: Tar, member: tarfile.TarInfo) -> None:
        parts = self._parts(member, member.name)
        is_note = parts and parts[0].startswith(_AUFS_NOTES) and parts[0] != OPAQUE_MARKER
        if not is_note and any(name.startswith(WHITEOUT) for name in parts[:-1]):
            self._refuse(member, "lies below a name that stands for a removed file")
        is_removal = bool(parts) and parts[-1].startswith(WHITEOUT)
        if is_note or is_removal:
            # Its content is skipped, which takes as long as reading it.
            self._check_room(member, member.size)
        try:
            if is_note:
                self._take_note(archive, member, parts)
                return
            self._make_parents(member, parts[:-1])
            if is_removal:
                self._note_removal(member, "/".join(parts[:-1]), parts[-1])
            else:
                self._make(archive, member, parts)
        except OSError as problem:
            if isinstance(problem, BadGzipFile):
                raise
            self._refuse(member, problem.strerror or str(problem))

    def finish(self) -> Change:
        """Mark removed files, and set modes and times of folders."""
        remove_tree(self._aufs_linked)
        removed, opaque = [], dict(self._opaque)
        for path in self._removed:
            place = self._diff / path
            if place.is_dir() and not place.is_symlink():
                # Removed and made again.
                opaque[path] = None
            elif not os.path.lexists(place):
                removed.append(path)
        made = read_overlay(self._diff)
        change = Change(tuple(removed), tuple(opaque), made.entries, made.size)
        mark_for_overlay(self._diff, change)
        # Innermost first, since a change in a folder changes its time.
        for path in sorted(self._folders, key=lambda path: (path.count("/"), path), reverse=True):
            mode, moment = self._folders[path]
            folder = self._diff / path
            # The layer's own folder is moved later.
            folder.chmod(mode if path else mode | 0o700)
            os.utime(folder, ns=(moment, moment))
        return change

    def _parts(self, member: tarfile.TarInfo, name: str) -> list[str]:
        """Split a name into its parts from the image's root, with `..` resolved."""
        parts = [part for part in posixpath.normpath(name).split("/") if part not in ("", ".")]
        if ".." in parts:
            self._refuse(member, f"a name that leads out of the image ({name})")
        if len(parts) > DEEPEST:
            self._refuse(member, f"more than {DEEPEST} folders deep")
        return parts

    def _make_parents(self, member: tarfile.TarInfo, parts: Sequence[str]) -> None:
        """Make missing parent folders of a member, with mode and time as in lower layers."""
        for depth in range(1, len(parts) + 1):
            path = "/".join(parts[:depth])
            found = status_of(self._diff / path)
            if found is None:
                self._make_folder(path, *self._as_below(path))
            elif stat.S_ISLNK(found.st_mode):
                self._refuse(member, f"lies below the symbolic link {path}")
            elif not stat.S_ISDIR(found.st_mode):
                self._refuse(member, f"lies below {path}, which is not a folder")

    def _as_below(self, path: str) -> tuple[int, int]:
        """Return mode and time of the folder in lower layers, or defaults if there is no such folder."""
        found = status_of(lower) if (lower := find_below(self._below, path)) else None
        if found is None or not stat.S_ISDIR(found.st_mode):
            return 0o755, 0
        return found.st_mode, found.st_mtime_ns

    def _make_folder(self, path: str, mode: int, moment: int) -> None:
        (self._diff / path).mkdir(mode=0o700)
        self._folders[path] = (stat.S_IMODE(mode), moment)

    def _note_removal(self, member: tarfile.TarInfo, folder: str, name: str) -> None:
        if name == OPAQUE_MARKER:
            if folder:
                self._opaque[folder] = None
                return
            # The root itself cannot be marked, so mark each of its entries.
            for layer in self._below:
                self._removed |= dict.fromkeys(path.name for path in layer.diff.iterdir())
        elif not name.startswith(_AUFS_NOTES):
            target = name.removeprefix(WHITEOUT)
            if target in ("", ".", ".."):
                self._refuse(member, "does not name the removed file")
            if len(os.fsencode(target)) > LONGEST_NAME:
                self._refuse(member, "removes a file whose name is too long")
            self._removed[f"{folder}/{target}" if folder else target] = None

    def _make(self, archive: Tar, member: tarfile.TarInfo, parts: Sequence[str]) -> None:
        path = "/".join(parts)
        self._check_room(member, member.size if member.isreg() else BLOCK)
        self._holes += member.size - sum(length for _, length in pieces_of(member))
        if self._holes > MOST_HOLES:
            self._refuse(member, f"sparse files with more than {amount(MOST_HOLES)} of holes")
        if member.isdir():
            self._remove_earlier(path, for_folder=True)
            if path in self._folders:
                self._folders[path] = (member.mode & 0o7777, moment_of(member))
            else:
                self._make_folder(path, member.mode, moment_of(member))
        elif not path:
            self._refuse(member, "is the root of the image, but not a folder")
        elif member.ischr() and (member.devmajor, member.devminor) == (0, 0):
            self._removed[path] = None
        elif member.ischr() or member.isblk():
            if parts[0] != "dev":
                self._refuse(member, "a device; images with devices outside of /dev cannot be used")
        elif member.islnk():
            source = self._link_source(member, path)
            # `link` may have to copy.
            self._check_room(member, source.lstat().st_size)
            self._remove_earlier(path, for_folder=False)
            link(str(source), str(self._diff / path))
        else:
            self._remove_earlier(path, for_folder=False)
            self._make_file(archive, member, self._diff / path)

    def _make_file(self, archive: Tar, member: tarfile.TarInfo, place: Path) -> None:
        if member.issym():
            place.symlink_to(member.linkname)
        elif member.isfifo():
            os.mkfifo(place, 0o600)
            place.chmod(member.mode & 0o7777)
        elif member.isreg():
            write(archive, member, place)
        else:
            self._refuse(member, f"has a type that layers cannot contain ({member.type!r})")
        moment = moment_of(member)
        os.utime(place, ns=(moment, moment), follow_symlinks=False)

    def _remove_earlier(self, path: str, *, for_folder: bool) -> None:
        """Remove the file of an earlier member with the same name; a folder stays for a folder."""
        place = self._diff / path
        found = status_of(place)
        if found is None or (for_folder and stat.S_ISDIR(found.st_mode)):
            return
        if stat.S_ISDIR(found.st_mode):
            remove_tree(place)
            inside = f"{path}/"
            for notes in (self._folders, self._opaque, self._removed):
                for name in [name for name in notes if f"{name}/".startswith(inside)]:
                    del notes[name]
        else:
            place.unlink()

    def _link_source(self, member: tarfile.TarInfo, path: str) -> Path:
        """Find the target of a hard link, in this layer or a lower one."""
        parts = self._parts(member, member.linkname)
        target = "/".join(parts)
        if parts[:1] == [_AUFS_LINKED]:
            place = self._aufs_linked / parts[-1]
            source = place if status_of(place) else None
        else:
            own = Layer(self._diff)
            source = find_below([own, *self._below], target)
        if source is None:
            self._refuse(member, f"a link to {member.linkname}, which is missing in the image")
        if stat.S_ISDIR(source.lstat().st_mode) or target == path:
            self._refuse(member, f"a hard link to {member.linkname}, which is not another file")
        return source

    def _take_note(self, archive: Tar, member: tarfile.TarInfo, parts: Sequence[str]) -> None:
        """Skip a file of AUFS; keep the targets of hard links beside the layer meanwhile."""
        if parts[0] == _AUFS_LINKED and member.isreg():
            place = self._aufs_linked / parts[-1]
            self._aufs_linked.mkdir(mode=0o700, exist_ok=True)
            place.unlink(missing_ok=True)
            self._make_file(archive, member, place)

    def _check_room(self, member: tarfile.TarInfo, size: int) -> None:
        if why := why_no_room(self._diff, size):
            self._refuse(member, why)

    def _refuse(self, member: tarfile.TarInfo, why: str) -> NoReturn:
        name = member.name.encode("utf-8", "backslashreplace").decode()[:LONGEST_QUOTED]
        raise ArgosyError(f"{self._where}: {name!r}: {why[:LONGEST_QUOTED]}")


def config_of(archive: Archive, image: IncomingImage) -> ImageConfig:
    """Read the image's configuration.

    Raises:
        ArgosyError: if it is invalid.
    """
    try:
        values = image.config.get("config") or {}
        if isinstance(values.get("Env"), str):
            raise TypeError
        config = ImageConfig.from_oci(values)
        return config.model_copy(update={"author": str(image.config.get("author") or "")})
    except (ValidationError, AttributeError, TypeError, ValueError):
        raise ArgosyError(
            f"{archive.title}: its configuration is not an image configuration"
        ) from None


def unpack_layer(
    archive: Archive, layer: IncomingLayer, diff: Path, below: Sequence[Layer]
) -> Change:
    """Unpack one layer into the new folder `diff`, and verify its digests.

    Raises:
        ArgosyError: if the layer is damaged, has another digest, or has unsafe content.
    """
    where = f"{archive.title}: {layer.member}"
    try:
        with archive.open(layer.member) as packed:
            outer = Hashing(packed)
            inner = Hashing(decompressed(outer))
            change = unpack(inner, diff, below, where)
            diff_id = inner.drain(MOST_AFTER_END)
            digest = outer.drain()
    except DAMAGE as problem:
        raise ArgosyError(f"{where}: {explain_damage(problem)}") from None
    if layer.digest not in (None, digest):
        raise ArgosyError(f"{where}: damaged: its digest is {digest}")
    if diff_id != layer.diff_id:
        raise ArgosyError(
            f"{where}: damaged or cut off: the layer {layer.diff_id} has the content {diff_id}"
        )
    return change
