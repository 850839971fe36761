"""Share a store: open to other users the files that they need to run its images, and no others."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

from argosy_common.errors import ArgosyError
from argosy_images.store.store import Store

TOOLS = ("tools", "udocker", "udocker-repository", "drivers", "engines", "history")
"""Folders of tools and notes, opened with all subfolders."""

IMAGES = ("roots", "archives")
"""Folders of frozen images; files in the images keep their modes."""

LAYERS = "layers"

_READ = stat.S_IRGRP | stat.S_IROTH
_ENTER = _READ | stat.S_IXGRP | stat.S_IXOTH
_WRITE = stat.S_IWGRP | stat.S_IWOTH


def share(store: Store, say: Callable[[str], None]) -> None:
    """Let all users who can reach the store's folder run its images.

    They can also read which steps are cached, so that their own build finds the image. Files of layers,
    builds and downloads stay private, and nobody else can write to the store.

    Raises:
        ArgosyError: if the store is missing, or belongs to another user.
    """
    if not store.path.is_dir():
        raise ArgosyError(f"{store.path}: there is no store yet", "run: argosy image build IMAGE")
    if store.path.stat().st_uid != os.geteuid():
        raise ArgosyError(f"{store.path}: you do not own this store", "ask its owner to share it")
    for path in store.path.iterdir():
        if path.name not in (*TOOLS, *IMAGES, LAYERS) and not path.is_symlink():
            path.chmod(0o700 if path.is_dir() else 0o600)
    for name in TOOLS:
        _open(store.path / name, whole=True)
    for name in IMAGES:
        _open(store.path / name, whole=False)
    layers = store.path / LAYERS
    for layer in layers.iterdir() if layers.is_dir() else ():
        if (layer / "diff").is_dir():
            (layer / "diff").chmod(0o700)
            _open(layer, whole=False)
    _open(layers, whole=False)
    # Last: until here, the store is closed.
    _open(store.path, whole=False)
    say(
        f"{store.path}: users who can reach this folder can run its images; share again after each build"
    )


def _open(folder: Path, *, whole: bool) -> None:
    """Let others enter a folder and read its files, with `whole` also in its subfolders."""
    if folder.is_symlink() or not folder.is_dir():
        return
    for path in folder.iterdir():
        mode = path.lstat().st_mode
        if stat.S_ISREG(mode) and not path.name.startswith("."):
            rights = _ENTER if mode & stat.S_IXUSR else _READ
            path.chmod(stat.S_IMODE((mode | rights) & ~_WRITE))
        elif whole:
            _open(path, whole=True)
    mode = folder.stat().st_mode
    folder.chmod(stat.S_IMODE((mode | _ENTER) & ~_WRITE))
