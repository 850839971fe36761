"""Unpack an image into a node's folder, after evicting others if necessary."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from argosy_common.errors import ArgosyError
from argosy_common.units import amount
from argosy_images.archive.unpacking import read_index, unpack, workers
from argosy_images.staging.folder import NodeFolder, Wanted
from argosy_images.staging.room import added, free, image_of, make_room

UNLIMITED = 1 << 60
"""Control groups of version 1 report a number above this for no limit."""


def make_room_in_memory(folder: NodeFolder, size: int) -> None:
    """Remove the images of killed jobs, and check that `size` bytes fit into memory.

    Raises:
        ArgosyError: with the sizes, if they do not.
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
    """Return the available bytes of the node's memory; `root` is the folder of /proc."""
    lines = (root / "proc/meminfo").read_text(encoding="ascii").splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    return int(fields["MemAvailable"].split()[0]) * 1024


def job_limit(root: Path) -> int | None:
    """Return the bytes that this process's control groups leave; None without a limit.

    See cgroups(7). Inactive page cache counts as free. `root` is the folder of /proc and /sys.
    """
    left = [room for group in _groups(root) if (room := _memory_left(group)) is not None]
    return min(left, default=None)


def _groups(root: Path) -> Iterator[Path]:
    """Yield the folders of this process's control group and its parents."""
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
    """Return the bytes that a control group leaves; None without a readable limit."""
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


def fill(
    wanted: Wanted, folder: NodeFolder, kept: int | None, alone: int, say: Callable[[str], None]
) -> None:
    """Unpack the image; raises as `staged`.

    Args:
        kept: maximum bytes of all staged images and data; None: the folder is in memory.
        alone: the descriptor of the folder's lock.
    """
    remedy = f"argosy image pack {wanted.name}"
    index = read_index(wanted.archive, wanted.digest, remedy)
    need = image_of(index.size)
    folder.remove_partials()
    if kept is None:
        make_room_in_memory(folder, need.size)
    else:
        make_room(folder, need, kept, say)
    say(f"unpacking the image ({amount(need.size)}) into {folder.path}")
    began = time.monotonic()
    with added(folder, wanted.digest, need) as root:
        # tar inherits the lock, so if this process is killed, others wait for tar.
        unpack(wanted.archive, index, root, remedy, held=[alone])
    took = time.monotonic() - began
    say(f"unpacked the image in {took:.1f} s, with {workers()} workers")
