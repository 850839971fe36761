"""Mount points that an image lacks.

Engines would make them in the image, which nobody may change, or refuse them. So the folder in which one
is missing is covered by a private one, which has it, beside links to the image's own entries. Those are
mounted once more elsewhere, before they are covered.
"""

import stat
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from argosy_images.engines.invocation import is_ours, subfolder
from argosy_images.engines.models import GUEST_DIR, Bind, Container

Names = tuple[str, ...]
"""A path of the image, its links followed."""
_OF_EACH_CONTAINER = ("dev", "proc", "run", "sys", "tmp")


def with_mount_points(container: Container, folder: Path) -> Container:
    """Return the container with mounts that give its binds a place; `folder` is private.

    A bind whose place lies directly in `/`, or in another bind, is left as it is.
    """
    missing: defaultdict[Names, dict[Names, bool]] = defaultdict(dict)
    for bind in container.binds if container.root.is_dir() else ():
        if found := _missing(container, bind):
            above, rest = found
            missing[above][rest] = bind.source.is_dir()
    more: list[Bind] = []
    for number, above in enumerate(sorted(missing)):
        cover = subfolder(subfolder(folder, "places"), str(number))
        image, seen = container.root.joinpath(*above), f"{GUEST_DIR}/covered-{number}"
        _cover(image, seen, cover, missing[above])
        more += [Bind(image, seen), Bind(cover, "/" + "/".join(above))]
    return replace(container, binds=[*more, *container.binds]) if more else container


def _missing(container: Container, bind: Bind) -> tuple[Names, Names] | None:
    """Return the folder of the image in which the place of a bind is missing, and the place in it."""
    # Imported where an image starts: commands that only ask about engines do without.
    from argosy_images.rootfs.rooted import Root

    in_others = any(
        bind.target.startswith(f"{other.target}/") for other in container.binds if other is not bind
    )
    if is_ours(bind) or in_others:
        return None
    with Root(container.root) as tree:
        names = tree.resolve(bind.target)
        if not names or names[0] in _OF_EACH_CONTAINER or tree.status_of(names):
            return None
        for depth in range(len(names) - 1, 0, -1):
            status = tree.status_of(names[:depth])
            if status:
                is_folder = stat.S_ISDIR(status.st_mode)
                return (names[:depth], names[depth:]) if is_folder else None
    return None


def _cover(image: Path, seen: str, cover: Path, places: Mapping[Names, bool]) -> None:
    """Make places in `cover`, beside links to what the image's folder has, which is mounted at `seen`.

    Args:
        places: whether each is of a folder.
    """
    for entry in image.iterdir():
        shown = entry.readlink() if entry.is_symlink() else f"{seen}/{entry.name}"
        (cover / entry.name).symlink_to(shown)
    for names, is_folder in places.items():
        place = cover.joinpath(*names)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.mkdir(exist_ok=True) if is_folder else place.touch()
