"""Remove unneeded frozen images and cached steps, least recently used first.

Images of an image.lock stay, in every project that uses the store, with their layers and the steps of
their last build. So do images that runs or containers use (`uses`). Prune refuses to run during a build or
import. It can be killed at any time: it renames entries into <store>/trash before it deletes them.
"""

import os
import secrets
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from argosy_common.disk import remove_tree
from argosy_common.errors import ArgosyError
from argosy_common.units import amount
from argosy_images.builder import history
from argosy_images.gc.inventory import (
    CachedLayer,
    FrozenImage,
    Inventory,
    Removal,
    Usage,
    freed,
    measure,
    total,
)
from argosy_images.store.lockfile import ImageLock
from argosy_images.store.store import Store
from argosy_images.udocker_repository.registering import UdockerRepository

Say = Callable[[str], None]

IMAGE_LOCK = "image-"
HIDDEN = ".gone-"


@dataclass(frozen=True)
class Candidate:
    """An image, step or download that may be removed."""

    title: str
    places: tuple[Path, ...]
    used: float
    usage: Usage
    digest: str = ""
    """Digest of an image, else empty."""
    height: int = 0
    """For a layer, the most layers above it in any chain; else 0."""


def prune(
    store: Store,
    project: Path,
    say: Say,
    *,
    age: int | None = None,
    size: int | None = None,
    dry_run: bool = False,
) -> None:
    """Remove unneeded images and steps, and report them; without `age` and `size`, remove all of them.

    Args:
        age: remove entries unused for this many seconds.
        size: remove entries until the rest takes at most this many bytes.

    Raises:
        ArgosyError: if a build is running, an image.lock of the project cannot be read, or the store is
            read-only.
    """
    _Pruning(store, project, say).run(age, size, dry_run)


class _Pruning:
    """A single call of `prune`."""

    def __init__(self, store: Store, project: Path, say: Say) -> None:
        self._store = store
        self._project = project
        self._say = say
        self._trash = store.path / "trash"

    def run(self, age: int | None, size: int | None, dry_run: bool) -> None:
        """Remove the candidates beyond the limits, and report them."""
        # A dry run changes nothing: even a lock would be a new file.
        with nullcontext() if dry_run else self._alone():
            locks = [ImageLock.read(path) for path in self._lock_files()]
            inventory = Inventory.of(self._store)
            found = [*self._not_in_use(self._candidates(inventory, locks))]
            chosen = _beyond(age, size, inventory, found)
            leftovers = self._leftovers()
            for candidate in chosen:
                self._say(f"{'would remove' if dry_run else 'removing'} {candidate.title}")
            if dry_run:
                room = freed([*(candidate.usage for candidate in chosen), *map(measure, leftovers)])
                self._say(
                    f"would free {amount(room + self._size_of_trash())}; {_summary(inventory, chosen)}"
                )
                return
            self._store.uses.clear()
            for path in [place for candidate in chosen for place in candidate.places] + leftovers:
                self._throw_away(path)
        UdockerRepository(self._store).forget_gone()
        # Builds may start from here on: they use nothing in the trash.
        self._say(f"freed {amount(self._empty_trash())}; {_summary(inventory, chosen)}")

    def _lock_files(self) -> Iterator[Path]:
        """Yield the image.locks of all projects that use the store."""
        here = self._project.absolute()
        yield from _locks_below(here)
        for other, host in self._store.uses.projects().items():
            if other.is_dir():
                yield from _locks_below(other) if other != here else ()
            elif host != socket.gethostname():
                self._say(
                    f"{other} on {host} uses the store but is not visible here: only its runs' "
                    "images are kept"
                )

    def _not_in_use(self, found: Sequence[Candidate]) -> Iterator[Candidate]:
        """Yield the candidates that are not in use, and report the users of the others."""
        users = {use.digest: (path, use) for path, use in self._store.uses.current().items()}
        for candidate in found:
            if candidate.digest not in users:
                yield candidate
                continue
            path, use = users[candidate.digest]
            since, until = (
                f"{datetime.fromtimestamp(at):%Y-%m-%d %H:%M}" for at in (use.since, use.until)
            )
            self._say(
                f"keeping {candidate.title}: {use.user} uses it since {since} ({use.host}); "
                f"if that is gone, remove {path}, which counts until {until}"
            )

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Block new builds; raise an error if one is running."""
        from filelock import FileLock, Timeout

        with ExitStack() as held:
            held.enter_context(self._store.locked("prune"))
            for path in sorted((self._store.path / "locks").glob(f"{IMAGE_LOCK}*.lock")):
                try:
                    held.enter_context(FileLock(path, timeout=0))
                except Timeout:
                    name = path.stem.removeprefix(IMAGE_LOCK)
                    raise ArgosyError(
                        f"{path}: a build of {name} is running", "try again after the build"
                    ) from None
            yield

    def _candidates(self, inventory: Inventory, locks: Sequence[ImageLock]) -> list[Candidate]:
        """Return images, steps and downloads that no image.lock needs, least recently used first."""
        digests = {lock.digest for lock in locks}
        needed = {diff_id for lock in locks for diff_id in lock.diff_ids}
        keys = {key for lock in locks for chain in self._chains(lock.name) for key in chain}
        used = self._last_use(inventory)
        found = [self._of_image(each) for each in inventory.images if each.digest not in digests]
        found += [
            _of_layer(each, *used[each.key])
            for each in inventory.layers
            if each.diff_id not in needed and each.key not in keys
        ]
        for part in inventory.downloads:
            title = f"download {part.path.name[:12]} of a pull that was not finished"
            found.append(Candidate(title, (part.path,), part.used, part.usage))
        return sorted(found, key=lambda each: (each.used, each.height))

    def _last_use(self, inventory: Inventory) -> dict[str, tuple[float, int]]:
        """Return for each layer its last use, by itself or a layer above it, and its height (`Candidate`).

        No layer may outlive the layers below it: a rebuilt one would have another digest.
        """
        images: dict[str, float] = {}
        for image in inventory.images:
            for diff_id in image.layers:
                images[diff_id] = max(image.used, images.get(diff_id, 0.0))
        # A container only uses the image, but deleting the image's layers frees nothing while it exists.
        used = {
            layer.key: (max(layer.used, images.get(layer.diff_id or "", 0.0)), 0)
            for layer in inventory.layers
        }
        names = sorted(path.stem for path in self._store.history("").parent.glob("*.json"))
        for chain in [chain for name in names for chain in self._chains(name)]:
            latest, place = 0.0, 0
            for key in reversed(chain):
                if key in used:
                    latest, place = max(latest, used[key][0]), max(place + 1, used[key][1])
                    used[key] = (latest, place)
        return used

    def _chains(self, image: str) -> list[list[str]]:
        """Return the keys of the chains of an image's last build."""
        last = history.read(self._store, image)
        return [[step.key for step in chain.steps] for chain in last.chains] if last else []

    def _of_image(self, image: FrozenImage) -> Candidate:
        name = image.lock.name if image.lock else "of another version of Argosy, or damaged,"
        # The description goes first: without it, the root counts as incomplete.
        places = (
            self._store.description(image.digest),
            self._store.archive(image.digest),
            image.root,
        )
        usage = {**image.usage, **image.packed}
        return Candidate(
            f"image {name} {image.digest[:19]}", places, image.used, usage, image.digest
        )

    def _leftovers(self) -> list[Path]:
        """Return the leftovers of killed processes; call it only while no build runs."""
        found = [*(self._store.path / "builds").glob("*"), *self._store.layer("").glob(".making-*")]
        archives = self._store.archive("").parent
        for folder in (self._store.root(""), self._store.layer(""), self._store.blobs, archives):
            found += folder.glob(f"{HIDDEN}*")
        # Unfinished packed images, and packed images without their image.
        found += archives.glob(".sha256-*")
        known = {f"{root.name}.tar.zst" for root in self._store.root("").glob("sha256-*")}
        found += (path for path in archives.glob("sha256-*") if path.name not in known)
        return sorted(found)

    def _throw_away(self, path: Path) -> None:
        """Move a tree or file to the trash, for `_empty_trash`."""
        if not os.path.lexists(path):
            return
        hidden = path.with_name(HIDDEN + secrets.token_hex(8))
        # Moving a read-only folder changes its entry `..`, so it needs write permission first; a frozen
        # folder must not get it under its own name.
        path.rename(hidden)
        if hidden.is_dir() and not hidden.is_symlink():
            hidden.chmod(0o700)
        self._trash.mkdir(exist_ok=True, mode=0o700)
        hidden.rename(self._trash / hidden.name.removeprefix(HIDDEN))

    def _empty_trash(self) -> int:
        """Empty the trash, also of killed calls, and return the freed bytes."""
        return sum(map(_delete, sorted(self._trash.iterdir()))) if self._trash.is_dir() else 0

    def _size_of_trash(self) -> int:
        """Return the bytes that `_empty_trash` would free."""
        return freed(map(measure, self._trash.iterdir())) if self._trash.is_dir() else 0


def _beyond(
    age: int | None, size: int | None, inventory: Inventory, found: Sequence[Candidate]
) -> list[Candidate]:
    """Return the candidates beyond the limits, in the order of `found`."""
    if age is None and size is None:
        return [*found]
    oldest = time.time() - age if age is not None else float("-inf")
    left, removal = total(inventory.usages), Removal()
    chosen = []
    for candidate in found:
        if candidate.used < oldest or (size is not None and left > size):
            chosen.append(candidate)
            left -= removal.add(candidate.usage)
    return chosen


def _locks_below(project: Path) -> list[Path]:
    return sorted((project / "resources" / "images").glob("*/image.lock"))


def _summary(inventory: Inventory, chosen: Sequence[Candidate]) -> str:
    gone = {candidate.places[-1] for candidate in chosen}
    images = sum(image.root not in gone for image in inventory.images)
    layers = sum(layer.folder not in gone for layer in inventory.layers)
    return f"left: {_count(images, 'image')}, {_count(layers, 'cached step')}"


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def _of_layer(layer: CachedLayer, used: float, height: int) -> Candidate:
    title = layer.step.instruction if layer.step else "of another version of Argosy, or damaged"
    shown = title if len(title) <= 70 else title[:69] + "…"
    title = f"step {layer.key[:12]} {shown}"
    return Candidate(title, (layer.folder,), used, layer.usage, height=height)


def _delete(path: Path) -> int:
    """Delete a tree or file, and return the freed bytes."""
    if path.is_symlink():
        path.unlink()
        return 0
    room = freed([measure(path)])
    if path.is_dir():
        remove_tree(path)
    else:
        path.unlink()
    return room
