"""Mount points that an image lacks.

Engines would make them in the image, which nobody may change, or refuse them. So the folder in which one is
missing is covered by a private one, which has it, and in which all of the image's own entries are mounted.
"""

import stat
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from argosy_common.errors import ArgosyError
from argosy_images.engines.invocation import is_ours, subfolder
from argosy_images.engines.models import Bind, Container

MOST_ENTRIES = 200
"""Of a folder that is covered: each is a mount of its own."""
_OF_EACH_CONTAINER = ("dev", "proc", "run", "sys", "tmp")


def with_mount_points(container: Container, folder: Path) -> Container:
    """Return the container with mounts that give its binds a place; `folder` is private.

    A bind whose place lies directly in `/`, or in another bind, is left as it is.

    Raises:
        ArgosyError: the image's folder there is too large.
    """
    missing: defaultdict[tuple[str, ...], list[tuple[str, ...]]] = defaultdict(list)
    for bind in container.binds:
        found = _missing(container, bind)
        if found:
            above, rest = found
            missing[above].append(rest)
    more: list[Bind] = []
    for number, above in enumerate(sorted(missing)):
        cover = subfolder(subfolder(folder, "places"), str(number))
        target = "/" + "/".join(above)
        more += [Bind(cover, target), *_entries(container.root.joinpath(*above), target, cover)]
        for rest in missing[above]:
            cover.joinpath(*rest).mkdir(parents=True, exist_ok=True)
    return replace(container, binds=[*more, *container.binds]) if more else container


def _missing(container: Container, bind: Bind) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Return the folder of the image in which the place of a folder is missing, and the place in it."""
    # Imported where an image starts: commands that only ask about engines do without.
    from argosy_images.rootfs.rooted import Root

    in_others = any(
        bind.target.startswith(f"{other.target}/") for other in container.binds if other is not bind
    )
    if is_ours(bind) or in_others or not bind.source.is_dir():
        return None
    with Root(container.root) as tree:
        names = tree.resolve(bind.target)
        if names[0] in _OF_EACH_CONTAINER or tree.status_of(names):
            return None
        for depth in range(len(names) - 1, 0, -1):
            status = tree.status_of(names[:depth])
            if status:
                is_folder = stat.S_ISDIR(status.st_mode)
                return (names[:depth], names[depth:]) if is_folder else None
    return None


def _entries(source: Path, target: str, cover: Path) -> Iterator[Bind]:
    """Yield mounts of what a folder of the image has, and make their places."""
    entries = [*source.iterdir()]
    if len(entries) > MOST_ENTRIES:
        raise ArgosyError(
            f"{target}: this folder of the image has over {MOST_ENTRIES} entries, so nothing can be added",
            "choose a path elsewhere, or make it in the Containerfile: RUN mkdir -p PATH",
        )
    for entry in entries:
        place = cover / entry.name
        if entry.is_symlink():
            place.symlink_to(entry.readlink())
            continue
        if entry.is_dir():
            place.mkdir()
        elif entry.is_file():
            place.touch()
        else:
            continue
        yield Bind(entry, f"{target}/{entry.name}")
