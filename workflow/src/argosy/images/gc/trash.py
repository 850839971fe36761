"""Deletes what is in a store so that it is there whole or not at all, whenever that is cut off."""

import os
import secrets
from pathlib import Path

from argosy.images.gc.disk import freed, measure
from argosy.images.store.store import Store, remove_tree

HIDDEN = ".gone-"


def leftovers(store: Store) -> list[Path]:
    """Return what those who were cut off left behind; to be asked for while nothing is being built."""
    found = [*(store.path / "builds").glob("*"), *store.layer("").glob(".making-*")]
    archives = store.archive("").parent
    for folder in (store.root(""), store.layer(""), store.blobs, archives):
        found += folder.glob(f"{HIDDEN}*")
    # Files that were being written, and those whose image is gone.
    found += archives.glob(".sha256-*")
    known = {f"{root.name}.tar.zst" for root in store.root("").glob("sha256-*")}
    found += (path for path in archives.glob("sha256-*") if path.name not in known)
    return sorted(found)


def throw_away(store: Store, path: Path) -> None:
    """Take a tree or file away at once; `empty` frees its room."""
    if not os.path.lexists(path):
        return
    hidden = path.with_name(HIDDEN + secrets.token_hex(8))
    # A frozen folder may not be moved to another folder, since its entry `..` changes with it; but as
    # long as it has its name it must stay frozen.
    path.rename(hidden)
    if hidden.is_dir() and not hidden.is_symlink():
        hidden.chmod(0o700)
    folder = _folder(store)
    folder.mkdir(exist_ok=True, mode=0o700)
    hidden.rename(folder / hidden.name.removeprefix(HIDDEN))


def empty(store: Store) -> int:
    """Delete what has been thrown away, now or by one who was cut off; the bytes that are free now."""
    folder = _folder(store)
    return sum(map(_delete, sorted(folder.iterdir()))) if folder.is_dir() else 0


def size(store: Store) -> int:
    """Return what `empty` would free."""
    folder = _folder(store)
    return freed(map(measure, folder.iterdir())) if folder.is_dir() else 0


def _delete(path: Path) -> int:
    """Delete one; the room of what has no other name."""
    if path.is_symlink():
        path.unlink()
        return 0
    room = freed([measure(path)])
    if path.is_dir():
        remove_tree(path)
    else:
        path.unlink()
    return room


def _folder(store: Store) -> Path:
    return store.path / "trash"
