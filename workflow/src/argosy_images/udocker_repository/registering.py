"""Show frozen images to udocker, as containers and as images, by their names.

Nothing is copied: a container's ROOT is a link to the frozen tree. udocker would let programs write there,
so `bin/` has Argosy's stand-in for proot (`proot`). PROTECT keeps udocker from removing a container or
changing its mode, which would start other programs.

<store>/udocker-repository/containers/<id>/       container.json, imagerepo.name, execmode, PROTECT,
                                                  ROOT -> the frozen tree
<store>/udocker-repository/containers/<name>      -> <id>
<store>/udocker-repository/repos/<name>/latest/   TAG, v2, PROTECT, manifest, the image's configuration
<store>/udocker-repository/layers/<digest>        the configuration; layers are folders elsewhere
<store>/udocker-repository/bin/                   the stand-in for proot, by udocker's names
<store>/udocker-repository/lib/VERSION            keeps all releases of udocker from installing tools
"""

import json
import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from argosy_common.disk import remove_tree
from argosy_common.files import write_json, write_text
from argosy_images.store.lockfile import ImageLock
from argosy_images.store.store import Store
from argosy_images.tools import Tools
from argosy_images.udocker_repository.proot import NOT_STARTED

TAG = "latest"
_PROOTS = ("proot-{}-4_8_0", "proot-{}")
"""udocker's file names of proot, for an architecture."""

NEWER_THAN_ANY = "999.0.0\n"
"""A version so high that no udocker replaces the tools by its own."""

_ANNOTATION = "argosy.root"
_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
_CONFIG = "application/vnd.docker.container.image.v1+json"


@dataclass(frozen=True)
class UdockerRepository:
    """The udocker repository of a store."""

    store: Store

    @property
    def path(self) -> Path:
        """UDOCKER_DIR for udocker's commands."""
        return self.store.udocker_repository

    def show(self, lock: ImageLock) -> str:
        """Show udocker the frozen image of this lock; return a message with the image's name."""
        with self.store.locked("udocker-repository"):
            for name in ("bin", "lib", "repos", "layers", "containers"):
                (self.path / name).mkdir(parents=True, exist_ok=True, mode=0o700)
            write_text(self.path / "lib/VERSION", NEWER_THAN_ANY)
            self._write_proot()
            self._drop_gone()
            container = self._make_container(lock)
            self._make_tag(lock)
            shown = lock.name if _name(container, lock.name) else container.name
        return f"udocker shows it as {shown}: UDOCKER_DIR={shlex.quote(str(self.path))}"

    def forget_gone(self) -> None:
        """Hide deleted images from udocker."""
        if (self.path / "containers").is_dir():
            with self.store.locked("udocker-repository"):
                self._drop_gone()

    def _write_proot(self) -> None:
        python = shlex.quote(sys.executable)
        for name in _PROOTS:
            script = self.path / "bin" / name.format(Tools.machine())
            text = (
                "#!/bin/sh\n"
                f"[ -x {python} ] || {{\n"
                f"    echo 'argosy: '{python}' is gone: build an image of this store anew' >&2\n"
                f"    exit {NOT_STARTED}\n"
                "}\n"
                f"exec {python} -I -m argosy_images.udocker_repository.proot "
                f'{shlex.quote(str(self.store.path))} "$@"\n'
            )
            # Write only if needed: others may be starting it.
            if not script.exists() or script.read_text(encoding="utf-8") != text:
                write_text(script, text)
                script.chmod(0o700)

    def _make_container(self, lock: ImageLock) -> Path:
        place = self.path / "containers" / container_id(lock.digest)
        if not place.exists():
            with self._making() as making:
                root = os.path.relpath(self.store.root(lock.digest), place)
                (making / "ROOT").symlink_to(root)
                (making / "container.json").write_bytes(lock.oci_bytes)
                (making / "imagerepo.name").write_text(f"{lock.name}:{TAG}", encoding="utf-8")
                # Without it, a mode set for all containers would start them by the host's programs.
                (making / "execmode").write_text("P1", encoding="utf-8")
                (making / "PROTECT").touch()
                making.rename(place)
        return place

    @contextmanager
    def _making(self) -> Iterator[Path]:
        """Yield a folder to fill and rename: udocker would list an unfinished one."""
        making = self.path / "making"
        remove_tree(making)
        making.mkdir()
        yield making

    def _make_tag(self, lock: ImageLock) -> None:
        """Add the image to udocker's list, unless the user has another image of this name."""
        place = self.path / "repos" / lock.name / TAG
        before = _shown_root(place)
        if place.exists() and not before:
            return
        content = lock.oci_bytes
        blob = self.path / "layers" / lock.digest
        blob.write_bytes(content)
        manifest = {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": {"mediaType": _CONFIG, "size": len(content), "digest": lock.digest},
            # Layers are folders, which udocker does not support.
            "layers": [],
            "annotations": {_ANNOTATION: self.store.root(lock.digest).name},
        }
        with self._making() as making:
            write_json(making / "manifest", manifest)
            (making / lock.digest).symlink_to(os.path.relpath(blob, place))
            (making / "v2").touch()
            (making / "PROTECT").touch()
            (making / "TAG").write_text(f"{place.parent}:{TAG}", encoding="utf-8")
            place.parent.mkdir(exist_ok=True)
            remove_tree(place)
            making.rename(place)
        if before:
            self._drop_blob(before)

    def _drop_blob(self, root: str) -> None:
        """Delete an image's configuration if no tag names it."""
        digest = root.replace("-", ":", 1)
        if not any((self.path / "repos").glob(f"*/{TAG}/{digest}")):
            (self.path / "layers" / digest).unlink(missing_ok=True)

    def _drop_gone(self) -> None:
        for container in [*(self.path / "containers").iterdir()]:
            is_ours = not container.is_symlink() and _is_shown(container)
            if is_ours and not (container / "ROOT").exists():
                for link in [*container.parent.iterdir()]:
                    if link.is_symlink() and link.readlink().name == container.name:
                        link.unlink()
                # rmtree does not follow the link ROOT.
                shutil.rmtree(container)
        for tag in [*(self.path / "repos").glob(f"*/{TAG}")]:
            root = _shown_root(tag)
            if root and not (self.store.path / "roots" / root).exists():
                shutil.rmtree(tag)
                self._drop_blob(root)
                with suppress(OSError):
                    tag.parent.rmdir()


def container_id(digest: str) -> str:
    """Return the id of an image's container in udocker's form, made of the digest's first digits."""
    digits = digest.removeprefix("sha256:")
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:32]))


def _name(container: Path, name: str) -> bool:
    """Give the container this name, unless a container of the user has it."""
    link = container.parent / name
    if link.is_symlink() and _is_shown(link):
        link.unlink()
    if os.path.lexists(link):
        return link.resolve() == container
    link.symlink_to(container.name)
    return True


def _is_shown(container: Path) -> bool:
    """Return whether Argosy made the container, not the user."""
    return (container / "ROOT").is_symlink()


def _shown_root(tag: Path) -> str | None:
    """Return the name of the frozen folder of a tag made by Argosy; None for the user's own tags."""
    try:
        content = json.loads((tag / "manifest").read_text(encoding="utf-8"))
        return str(content["annotations"][_ANNOTATION])
    except (OSError, ValueError, KeyError, TypeError):
        return None
