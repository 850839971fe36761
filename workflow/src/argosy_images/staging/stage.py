"""Puts a frozen image or data where a node's containers use it, once for all who come.

What every container waits for is kept small: when the image is there, that is one lock.
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
"""Makes what is missing in the folder; is told the descriptor of the lock by which nobody else does."""

_ENDINGS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@dataclass(frozen=True)
class Place:
    """The place where a node's images are unpacked.

    Args:
        room: what images that are kept may take there together, in bytes; None: nothing is kept, and an
            image goes with the last container that uses it, since it is memory that it takes.
    """

    folder: Path
    room: int | None


@dataclass(frozen=True)
class Staged:
    """An image on this node; `lock` is the descriptor that keeps it there.

    `was_there` says whether somebody else has put it there.
    """

    root: Path
    lock: int
    was_there: bool


@contextmanager
def staged(wanted: Wanted, place: Place, say: Say) -> Iterator[Staged]:
    """Stage the image on this node, unless it is there. It stays as long as `lock` is open anywhere.

    SIGTERM, SIGINT and SIGHUP to this process end what is being done as an exception does.

    Raises:
        ArgosyError: when the packed image is not there or damaged, there is no room, or the folder is
            not the user's alone.
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
    """Put an image or data there by `fill`, unless it is there. The rest is as for `staged`."""
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
    """Return a descriptor that keeps the image there, and whether another process has put it there."""

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
    """Turn a request to end into an exception, so that nothing is left behind."""
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
    # A second request must not cut off the clearing up.
    _ignore_endings()
    raise SystemExit(128 + number)


def _ignore_endings() -> None:
    if threading.current_thread() is threading.main_thread():
        for number in _ENDINGS:
            signal.signal(number, signal.SIG_IGN)
