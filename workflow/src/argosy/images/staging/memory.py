"""Room for an image in the memory of a node, which is the job's as far as the job is held to a limit."""

import os
from collections.abc import Iterator
from pathlib import Path

from argosy.errors import ArgosyError
from argosy.images.staging.eviction import free
from argosy.images.staging.folder import NodeFolder
from argosy.units import amount

UNLIMITED = 1 << 60
"""Version 1 of control groups writes a number beyond this for no limit."""


def make_room(folder: NodeFolder, size: int) -> None:
    """Remove the images of jobs that were killed, and look whether `size` bytes more fit.

    Raises:
        ArgosyError: with the sizes, when they do not.
    """
    for image in folder.images():
        folder.remove_if_unused(image)
    of_job = job_limit(Path("/"))
    left = {
        f"free in {folder.path.parent}": free(folder),
        "free memory of the node": available(Path("/")),
        **({} if of_job is None else {"left of the job's memory": of_job}),
    }
    what, least = min(left.items(), key=lambda item: item[1])
    if least < size:
        raise ArgosyError(
            f"images.stage is memory: the image takes {amount(size)}, and on {os.uname().nodename} "
            f"there are {amount(least)} {what}",
            "ask for more by resources.memory_per_rank, or choose "
            "another images.stage in site.yaml",
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
    left = [room for group in _groups(root) if (room := _left(group)) is not None]
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


def _left(group: Path) -> int | None:
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
