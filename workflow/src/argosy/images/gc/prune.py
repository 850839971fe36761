"""Removes frozen images and cached steps that are not needed, those that were not used for longest first.

What an image.lock names stays, of all projects that share the store, with its layers and the steps of its
last build. So do images that runs or containers use (`uses`), and everything while a build or an import is
under way. A removal may be cut off at any instant: things are renamed into <store>/trash, which takes them
away whole, and are deleted there.
"""

import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from argosy.errors import ArgosyError
from argosy.images.gc import trash
from argosy.images.gc.candidates import Candidate, candidates
from argosy.images.gc.disk import Inode, Usage, freed, measure
from argosy.images.gc.inventory import Inventory, read_inventory
from argosy.images.store.lockfile import read_lock
from argosy.images.store.store import Store
from argosy.images.store.uses import clear_notes, projects, uses
from argosy.images.udocker_repository.registering import forget_gone
from argosy.units import amount, mebibytes, seconds

Say = Callable[[str], None]

IMAGE_LOCK = "image-"


@dataclass(frozen=True)
class Limits:
    """What goes: what was not used for `age` seconds, and more until the rest takes `size` bytes.

    With neither all goes that may.
    """

    age: int | None = None
    size: int | None = None

    @classmethod
    def parse(cls, age: str | None, size: str | None) -> "Limits":
        """Parse `30d` and `20G`.

        Raises:
            ArgosyError: naming the option that is written otherwise.
        """
        try:
            age_s = None if age is None else seconds(age)
        except ValueError as problem:
            raise ArgosyError(f"--older-than {age}: {problem}") from None
        try:
            size_b = None if size is None else mebibytes(size) << 20
        except ValueError as problem:
            raise ArgosyError(f"--keep {size}: {problem}") from None
        return cls(age_s, size_b)


def prune(store: Store, project: Path, limits: Limits, say: Say, *, dry_run: bool = False) -> None:
    """Remove what may go and is beyond the limits, and tell.

    Raises:
        ArgosyError: when a build is under way, an image.lock of the project cannot be read, or the store
            cannot be written to.
    """
    # A look holds nothing, as a lock would be a file.
    with nullcontext() if dry_run else _alone(store):
        locks = [read_lock(path) for path in _lock_files(store, project, say)]
        inventory = read_inventory(store)
        found = [*_not_in_use(candidates(store, inventory, locks), store, say)]
        chosen = choose(inventory, found, limits)
        leftovers = trash.leftovers(store)
        for candidate in chosen:
            say(f"{'would remove' if dry_run else 'removing'} {candidate.title}")
        if dry_run:
            room = freed([*(candidate.usage for candidate in chosen), *map(measure, leftovers)])
            say(f"would free {amount(room + trash.size(store))}; {_left(inventory, chosen)}")
            return
        clear_notes(store)
        for path in [place for candidate in chosen for place in candidate.places] + leftovers:
            trash.throw_away(store, path)
    forget_gone(store)
    # From here on builds may begin: nothing that they could use is in the trash.
    say(f"freed {amount(trash.empty(store))}; {_left(inventory, chosen)}")


def choose(inventory: Inventory, found: Sequence[Candidate], limits: Limits) -> list[Candidate]:
    """Return those of `found`, in their order, that are beyond the limits."""
    if limits.age is None and limits.size is None:
        return [*found]
    oldest = time.time() - limits.age if limits.age is not None else float("-inf")
    left = _Left(inventory.usages)
    chosen = []
    for candidate in found:
        too_much = limits.size is not None and left.size > limits.size
        if candidate.used < oldest or too_much:
            chosen.append(candidate)
            left.remove(candidate.usage)
    return chosen


class _Left:
    """The room that the rest takes, while one after the other goes."""

    def __init__(self, usages: Sequence[Usage]) -> None:
        self._names: Counter[Inode] = Counter()
        sizes: dict[Inode, int] = {}
        for usage in usages:
            for inode, file in usage.items():
                self._names[inode] += file.found
                sizes[inode] = file.size
        self.size = sum(sizes.values())

    def remove(self, usage: Usage) -> None:
        for inode, file in usage.items():
            self._names[inode] -= file.found
            if self._names[inode] == 0:
                self.size -= file.size


def _lock_files(store: Store, project: Path, say: Say) -> Iterator[Path]:
    """Yield the image.locks of all projects that use the store."""
    here = project.absolute()
    yield from _locks_below(here)
    for other, host in projects(store).items():
        if other.is_dir():
            yield from _locks_below(other) if other != here else ()
        elif host != socket.gethostname():
            say(f"{other} on {host} uses the store but cannot be seen: only its runs are known")


def _locks_below(project: Path) -> list[Path]:
    return sorted((project / "resources" / "images").glob("*/image.lock"))


def _not_in_use(found: Sequence[Candidate], store: Store, say: Say) -> Iterator[Candidate]:
    """Yield the candidates that nobody uses now, and say of the others who does."""
    users = {use.digest: (path, use) for path, use in uses(store).items()}
    for candidate in found:
        if candidate.digest not in users:
            yield candidate
            continue
        path, use = users[candidate.digest]
        since, until = (
            f"{datetime.fromtimestamp(at):%Y-%m-%d %H:%M}" for at in (use.since, use.until)
        )
        say(
            f"keeping {candidate.title}: {use.user} uses it since {since} ({use.host}); "
            f"if that is gone, remove {path}, which counts until {until}"
        )


def _left(inventory: Inventory, chosen: Sequence[Candidate]) -> str:
    gone = {candidate.places[-1] for candidate in chosen}
    images = sum(image.root not in gone for image in inventory.images)
    layers = sum(layer.folder not in gone for layer in inventory.layers)
    return f"what stays: {_count(images, 'image')}, {_count(layers, 'cached step')}"


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


@contextmanager
def _alone(store: Store) -> Iterator[None]:
    """Keep builds from beginning, and refuse where one is under way."""
    from filelock import FileLock, Timeout

    with ExitStack() as held:
        held.enter_context(store.locked("prune"))
        for path in sorted((store.path / "locks").glob(f"{IMAGE_LOCK}*.lock")):
            try:
                held.enter_context(FileLock(path, timeout=0))
            except Timeout:
                name = path.stem.removeprefix(IMAGE_LOCK)
                raise ArgosyError(
                    f"{path}: a build of {name} is under way", "try again when it has ended"
                ) from None
        yield
