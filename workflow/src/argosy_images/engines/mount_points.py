"""Add mount points that an image lacks, without changing the image.

Engines would create them in the image, or fail. Instead a private folder covers the image's folder that
lacks a mount point. It contains the mount point, and links to the covered folder's entries. The covered
folder is also mounted at another path.
"""

import stat
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from argosy_images.engines.invocation import is_ours, subfolder
from argosy_images.engines.models import GUEST_DIR, Bind, Container

if TYPE_CHECKING:
    from argosy_images.rootfs.rooted import Root

Names = tuple[str, ...]
"""A path of the image without symbolic links."""
_OF_EACH_CONTAINER = ("dev", "proc", "run", "sys", "tmp")


def with_mount_points(container: Container, folder: Path) -> Container:
    """Return the container with added mounts for missing mount points; `folder` is private.

    Mount points directly in `/` or inside another bind are not added.
    """
    # Imported here: commands that only list engines do not need it.
    from argosy_images.rootfs.rooted import Root

    if not container.root.is_dir():
        return container
    with Root(container.root) as tree:
        places = {tree.resolve(bind.target): bind for bind in _own_places(container)}
        covered = {above for names in places if (above := _above_missing(tree, names))}
    more: list[Bind] = []
    outermost = [
        one for one in covered if not any(one[: len(each)] == each for each in covered - {one})
    ]
    for number, above in enumerate(sorted(outermost)):
        cover = subfolder(subfolder(folder, "places"), str(number))
        image, seen = container.root.joinpath(*above), f"{GUEST_DIR}/covered-{number}"
        within = {
            names[len(above) :]: bind.source.is_dir()
            for names, bind in places.items()
            if names[: len(above)] == above and names != above
        }
        _cover(image, seen, cover, within)
        more += [Bind(image, seen), Bind(cover, "/" + "/".join(above))]
    return replace(container, binds=[*more, *container.binds]) if more else container


def _own_places(container: Container) -> Iterator[Bind]:
    """Yield the binds whose mount points are in the image, and in no other bind."""
    for bind in container.binds:
        others = (other.target for other in container.binds if other is not bind)
        if not is_ours(bind) and not any(bind.target.startswith(f"{each}/") for each in others):
            yield bind


def _above_missing(tree: "Root", names: Names) -> Names:
    """Return the deepest existing folder above a missing mount point; empty if none has to be covered."""
    if not names or names[0] in _OF_EACH_CONTAINER or tree.status_of(names):
        return ()
    for depth in range(len(names) - 1, 0, -1):
        if status := tree.status_of(names[:depth]):
            return names[:depth] if stat.S_ISDIR(status.st_mode) else ()
    return ()


def _cover(image: Path, seen: str, cover: Path, places: Mapping[Names, bool]) -> None:
    """Fill `cover` with mount points, and with links to the image's entries.

    Args:
        image: the covered folder of the image; may be missing.
        seen: the path at which the container has the covered folder.
        places: paths of mount points in the folder, and whether each is a folder.
    """
    inner: defaultdict[str, dict[Names, bool]] = defaultdict(dict)
    for (name, *rest), is_folder in places.items():
        inner[name][tuple(rest)] = is_folder
    for entry in image.iterdir() if image.is_dir() else ():
        if entry.name not in inner:
            shown = entry.readlink() if entry.is_symlink() else f"{seen}/{entry.name}"
            (cover / entry.name).symlink_to(shown)
    for name, below in inner.items():
        if below.get((), True):
            (cover / name).mkdir()
        else:
            (cover / name).touch()
        if further := {names: is_folder for names, is_folder in below.items() if names}:
            _cover(image / name, f"{seen}/{name}", cover / name, further)
