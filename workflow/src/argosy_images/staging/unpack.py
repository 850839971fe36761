"""Unpacks an image into the folder of a node, when there is room or room can be made."""

import errno
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from argosy_common.disk import remove_tree
from argosy_common.errors import FULL, ArgosyError
from argosy_common.units import amount
from argosy_images.archive.unpacking import Index, read_index, unpack, workers
from argosy_images.staging.folder import NodeFolder, Wanted
from argosy_images.staging.room import free, image_of, make_room

UNLIMITED = 1 << 60
"""Version 1 of control groups writes a number beyond this for no limit."""


def make_room_in_memory(folder: NodeFolder, size: int) -> None:
    """Remove the images of jobs that were killed, and look whether `size` bytes more fit.

    Raises:
        ArgosyError: with the sizes, when they do not.
    """
    for image in folder.images():
        folder.remove_if_unused(image)
    of_job = job_limit(Path("/"))
    left = {
        f"free in {folder.path.parent}": free(folder.path),
        "free memory of the node": available(Path("/")),
        **({} if of_job is None else {"left of the job's memory": of_job}),
    }
    what, least = min(left.items(), key=lambda item: item[1])
    if least < size:
        raise ArgosyError(
            f"images.stage is memory: the image needs {amount(size)}, but {os.uname().nodename} has "
            f"{amount(least)} {what}",
            "raise resources.memory_per_rank, or choose another images.stage in site.yaml",
        )


def available(root: Path) -> int:
    """Return bytes of the node's memory that programs may still take; `root` is where /proc is."""
    lines = (root / "proc/meminfo").read_text(encoding="ascii").splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    return int(fields["MemAvailable"].split()[0]) * 1024


def job_limit(root: Path) -> int | None:
    """Return bytes that this process's control group, or one around it, may still take; None: no limit.

    See cgroups(7); files that were only read count as free. `root` is where /proc and /sys are.
    """
    left = [room for group in _groups(root) if (room := _memory_left(group)) is not None]
    return min(left, default=None)


def _groups(root: Path) -> Iterator[Path]:
    """Yield the folders of this process's control group and of all around it."""
    try:
        lines = (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        top = root / "sys/fs/cgroup" / ("memory" if controllers else "")
        group = top / path.strip("/")
        yield from (each for each in (group, *group.parents) if each.is_relative_to(top))


def _memory_left(group: Path) -> int | None:
    """Return what a control group may still take; None where it has no limit, or none that can be read."""
    for limit, usage, cached in (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        try:
            most = (group / limit).read_text(encoding="ascii").strip()
            if most == "max" or int(most) > UNLIMITED:
                return None
            used = int((group / usage).read_text(encoding="ascii"))
            stat = (group / "memory.stat").read_text(encoding="ascii").split()
        except (OSError, ValueError):
            continue
        reclaimable = int(stat[stat.index(cached) + 1]) if cached in stat else 0
        return int(most) - used + reclaimable
    return None


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
        make_room_in_memory(folder, index.size)
    else:
        make_room(folder, image_of(index.size), kept, say)
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
        raise image_of(index.size).unmet(folder) from None
    except ArgosyError as problem:
        if os.strerror(errno.ENOSPC) not in str(problem):
            raise
        raise image_of(index.size).unmet(folder) from None
    finally:
        remove_tree(making)
    took = time.monotonic() - began
    say(f"unpacked the image in {took:.1f} s, with {workers()} workers")
