"""Stage a frozen image or data on a node, once for all its containers.

If the image is already staged, a container waits for one lock only.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from argosy_images.staging.folder import SHARED, Image, NodeFolder, Wanted, take

MEMORY = Path("/dev/shm")

Say = Callable[[str], None]
Fill = Callable[[NodeFolder, int], None]
"""Adds the image or data to the folder; the second argument is the descriptor of the folder's lock."""

_ENDINGS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@dataclass(frozen=True)
class Place:
    """A node's folder for staged images.

    Args:
        room: maximum bytes of all staged images and data. None: the folder is in memory, so an image is
            removed with its last container.
    """

    folder: Path
    room: int | None


@dataclass(frozen=True)
class Staged:
    """An image or data on this node.

    Args:
        lock: the descriptor that prevents its removal.
        was_there: another process had staged it.
    """

    root: Path
    lock: int
    was_there: bool


@contextmanager
def staged(wanted: Wanted, place: Place, say: Say) -> Iterator[Staged]:
    """Stage the image on this node, unless it exists. It stays while any copy of `lock` is open.

    SIGTERM, SIGINT and SIGHUP to this process raise SystemExit, and partial work is removed.

    Raises:
        ArgosyError: if the packed image is missing or damaged, the disk is full, or the folder is not
            private to the user.
    """

    def unpack(folder: NodeFolder, alone: int) -> None:
        from argosy_images.staging.unpack import fill

        fill(wanted, folder, place.room, alone, say)

    with kept(wanted.digest, place, unpack, say) as image:
        yield image


@contextmanager
def kept(
    digest: str, place: Place, fill: Fill, say: Say, *, of_programs: bool = True
) -> Iterator[Staged]:
    """Stage an image or data by `fill`, unless it exists; otherwise as `staged`."""
    with _ended_in_order():
        folder = NodeFolder.below(place.folder, of_programs=of_programs)
        image = folder.image(digest)
        lock, was_there = folder.use(image), True
        if lock is None:
            lock, was_there = _fill_or_wait(image, folder, fill, say)
        os.utime(lock)
        try:
            yield Staged(image.root, lock, was_there)
        finally:
            _ignore_endings()
            os.close(lock)
            if place.room is None:
                folder.remove_if_unused(image)


def _fill_or_wait(image: Image, folder: NodeFolder, fill: Fill, say: Say) -> tuple[int, bool]:
    """Return the lock of the image, and whether another process has staged it meanwhile."""

    def waiting() -> None:
        node = os.uname().nodename
        say(f"waiting: another process of {node} is unpacking an image, or copying data")

    with folder.alone(waiting) as alone:
        lock = take(image.lock, SHARED)
        try:
            was_there = image.is_there
            if not was_there:
                fill(folder, alone)
        except BaseException:
            os.close(lock)
            folder.remove_if_unused(image)
            raise
    return lock, was_there


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """Turn signals into SystemExit, so that partial work is removed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = {number: signal.signal(number, _end) for number in _ENDINGS}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _end(number: int, frame: object) -> None:
    # A second signal must not interrupt the cleanup.
    _ignore_endings()
    raise SystemExit(128 + number)


def _ignore_endings() -> None:
    if threading.current_thread() is threading.main_thread():
        for number in _ENDINGS:
            signal.signal(number, signal.SIG_IGN)
