"""Unpacks an image into the folder of a node, when there is room or room can be made."""

import errno
import os
import time
from collections.abc import Callable

from argosy.errors import FULL, ArgosyError
from argosy.images.archive.index import Index, read_index
from argosy.images.archive.unpacking import unpack, workers
from argosy.images.staging import eviction, memory
from argosy.images.staging.folder import NodeFolder, Wanted
from argosy.images.store.store import remove_tree
from argosy.units import amount

Say = Callable[[str], None]


def fill(wanted: Wanted, folder: NodeFolder, kept: int | None, alone: int, say: Say) -> None:
    """Unpack the image.

    Args:
        kept: what images may take together, in bytes; None: the folder is in memory.
        alone: the descriptor of the lock by which nobody else does so now.

    Raises:
        ArgosyError: as `staged`.
    """
    index = read_index(wanted.archive, wanted.digest, _remedy(wanted))
    folder.remove_partials()
    if kept is None:
        memory.make_room(folder, index.size)
    else:
        eviction.make_room(folder, index.size, kept, say)
    _unpack(wanted, index, folder, alone, say)


def _remedy(wanted: Wanted) -> str:
    return f"argosy image pack {wanted.name}"


def _unpack(wanted: Wanted, index: Index, folder: NodeFolder, alone: int, say: Say) -> None:
    say(f"unpacking the image ({amount(index.size)}) into {folder.path}")
    began = time.monotonic()
    making = folder.making()
    try:
        # Not before: a request to end may come as soon as it is there.
        making.mkdir(mode=0o700)
        # tar holds our lock as well: were we killed, nobody begins before it has ended.
        unpack(wanted.archive, index, making / "root", _remedy(wanted), held=[alone])
        (making / "size").write_text(str(index.size), encoding="ascii")
        making.rename(folder.image(wanted.digest).path)
    except OSError as problem:
        if problem.errno not in FULL:
            raise
        raise eviction.full(folder, index.size) from None
    except ArgosyError as problem:
        if os.strerror(errno.ENOSPC) not in str(problem):
            raise
        raise eviction.full(folder, index.size) from None
    finally:
        remove_tree(making)
    took = time.monotonic() - began
    say(f"unpacked the image in {took:.1f} s, by {workers()} workers at once")
