"""Mount points that an image lacks.

Engines would make them in the image, which nobody may change, or refuse them. So the folder in which one
is missing is covered by a private one, which has it, beside links to the image's own entries. Those are
mounted once more elsewhere, before they are covered.
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
"""A path of the image, its links followed."""
_OF_EACH_CONTAINER = ("dev", "proc", "run", "sys", "tmp")


def with_mount_points(container: Container, folder: Path) -> Container:
    """Return the container with mounts that give its binds a place; `folder` is private.

    A bind whose place lies directly in `/`, or in another bind, is left as it is.
    """
    # Imported where an image starts: commands that only ask about engines do without.
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
    """Yield the binds whose places are in the image, and in no other bind."""
    for bind in container.binds:
        others = (other.target for other in container.binds if other is not bind)
        if not is_ours(bind) and not any(bind.target.startswith(f"{each}/") for each in others):
            yield bind


def _above_missing(tree: "Root", names: Names) -> Names:
    """Return the folder of the image in which a place is missing; none if it is there, or nothing helps."""
    if not names or names[0] in _OF_EACH_CONTAINER or tree.status_of(names):
        return ()
    for depth in range(len(names) - 1, 0, -1):
        if status := tree.status_of(names[:depth]):
            return names[:depth] if stat.S_ISDIR(status.st_mode) else ()
    return ()


def _cover(image: Path, seen: str, cover: Path, places: Mapping[Names, bool]) -> None:
    """Make places in `cover`, beside links to what the image's folder has, which is mounted at `seen`.

    Args:
        image: the folder, which may be missing.
        places: their paths in it, and whether each is of a folder.
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
