"""Modes, groups and times of a frozen tree's files: noted before a program could change them, and put back.

Landlock keeps files from being opened to be written. It has no say in chmod(2), chown(2) and utimensat(2),
so below proot a program may change those of its image, which other runs use as well. proot itself gives its
user all rights to what is on the way to a file, as root would have them, until the call that names it has
ended; one that is killed then leaves them so. Standard library only.
"""

import errno
import os
import stat
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from argosy.files import replacing
from argosy.images.rootfs.rooted import FROZEN, Folder, Root

_FORMAT = b"argosy attributes 1"
_FASTEST = 1


@dataclass(frozen=True, slots=True)
class Attributes:
    """Of a file: what a program may change without opening it, and its size.

    Args:
        mode: with the kind of file.
        modified: in nanoseconds of Unix time.
    """

    mode: int
    group: int
    modified: int
    size: int

    @classmethod
    def of(cls, status: os.stat_result) -> "Attributes":
        """Return those of a status; a folder's size says nothing."""
        size = status.st_size if stat.S_ISREG(status.st_mode) else 0
        return cls(status.st_mode, status.st_gid, status.st_mtime_ns, size)

    def opened(self) -> "Attributes":
        """Return them with what proot gives its user for the time of a call."""
        rights = stat.S_IRWXU if stat.S_ISDIR(self.mode) else stat.S_IRUSR | stat.S_IWUSR
        return replace(self, mode=self.mode | rights)

    def closed(self) -> "Attributes":
        """Return them as those of a frozen folder, which nobody may change."""
        return replace(self, mode=self.mode & FROZEN) if stat.S_ISDIR(self.mode) else self


Notes = Mapping[bytes, Mapping[bytes, Attributes]]
"""Of each folder by its path from the root, its files by name; the root itself is the file `` of ``."""


@dataclass(frozen=True)
class Found:
    """What a tree was found to be, by paths: what was put back, and what is another file now.

    What proot had changed for the time of a call is put back and not told: no program did it.
    """

    put_back: list[str]
    changed: list[str]


def note_path(root: Path) -> Path:
    """Return where the attributes of a tree are noted: beside it."""
    return root.with_name(f"{root.name}.attributes")


def note(root: Path) -> bool:
    """Note the attributes of a frozen tree unless they are; whether they are noted.

    A tree of somebody else's is not noted: nobody but its owner can change them.
    """
    path = note_path(root)
    try:
        if root.stat().st_uid != os.geteuid():
            return False
        if path.is_file():
            return True
        with Root(root) as tree:
            own = Attributes.of(tree.own_status()).closed()
            lines = [_line(b"", b"", own), *_lines(tree, b"")]
        with replacing(path) as temporary:
            temporary.write_bytes(zlib.compress(b"\0".join([_FORMAT, *lines]), _FASTEST))
    except OSError:
        # The store is not ours to write to, or its disk is full.
        return False
    return True


def put_back(root: Path) -> Found:
    """Give the files of a tree the attributes that were noted.

    Raises:
        OSError: when the tree or the note is gone, or may not be changed.
    """
    notes = _read(note_path(root))
    found = Found([], [])
    with Root(root) as tree:
        own, there = notes[b""][b""], Attributes.of(tree.own_status())
        if there != own:
            tree.set_mode(stat.S_IMODE(own.mode))
            tree.set_own_modified(own.modified)
        if there not in (own, own.opened()):
            found.put_back.append("/")
        _put_back(tree, b"", notes, found)
    return found


def _put_back(folder: Folder, path: bytes, notes: Notes, found: Found) -> None:
    for name, wanted in notes[path].items():
        if not name:
            continue
        plain, whole = os.fsdecode(name), path + b"/" + name
        status = folder.status(plain)
        if status is None or stat.S_IFMT(status.st_mode) != stat.S_IFMT(wanted.mode):
            found.changed.append(os.fsdecode(whole))
            continue
        there = Attributes.of(status)
        if there != wanted:
            _give(folder, plain, there, wanted)
        if there not in (wanted, wanted.opened()):
            kind = found.put_back if there.size == wanted.size else found.changed
            kind.append(os.fsdecode(whole))
        if stat.S_ISDIR(wanted.mode):
            with folder.open(plain) as inner:
                _put_back(inner, whole, notes, found)


def _give(folder: Folder, name: str, there: Attributes, wanted: Attributes) -> None:
    if there.group != wanted.group:
        folder.set_group_of(name, wanted.group)
    if there.mode != wanted.mode:
        folder.set_mode_of(name, stat.S_IMODE(wanted.mode))
    # The time of another content is what shows that it is one.
    if there.modified != wanted.modified and there.size == wanted.size:
        folder.set_modified(name, wanted.modified)


def _lines(folder: Folder, path: bytes) -> Iterator[bytes]:
    for name in folder.names():
        status = folder.status(name)
        assert status
        yield _line(path, os.fsencode(name), Attributes.of(status).closed())
        if stat.S_ISDIR(status.st_mode):
            with folder.open(name) as inner:
                yield from _lines(inner, path + b"/" + os.fsencode(name))


def _line(path: bytes, name: bytes, of: Attributes) -> bytes:
    return b"%o %d %d %d %b/%b" % (of.mode, of.group, of.modified, of.size, path, name)


def _read(path: Path) -> Notes:
    notes: defaultdict[bytes, dict[bytes, Attributes]] = defaultdict(dict)
    try:
        form, *lines = zlib.decompress(path.read_bytes()).split(b"\0")
        if form != _FORMAT:
            raise ValueError
        for line in lines:
            mode, group, modified, size, whole = line.split(b" ", 4)
            folder, _, name = whole.rpartition(b"/")
            notes[folder][name] = Attributes(int(mode, 8), int(group), int(modified), int(size))
    except (ValueError, zlib.error):
        # The next run notes them again.
        path.unlink()
        raise OSError(errno.EINVAL, "is damaged, or of another version", str(path)) from None
    return notes
