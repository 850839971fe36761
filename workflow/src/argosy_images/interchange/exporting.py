"""Export an image as one file that is both an OCI archive and a Docker archive.

The image's digest is that of its configuration, so podman and docker show the same digest. Layers are
uncompressed tars: their blobs are named by diff_id, verified while they are written, and take no time for
gzip (a minute for 2 GB). Users may compress the file as a whole. `manifest.json` is for tools without OCI
support, such as udocker and docker before 25. The same image always gives the same file.
"""

import hashlib
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from argosy_common.errors import ArgosyError
from argosy_common.files import replacing
from argosy_images.builder.cache import CachedStep
from argosy_images.gc.inventory import find_layers
from argosy_images.namespaces import unhindered
from argosy_images.oci import (
    CONFIG_TYPE,
    INDEX_TYPE,
    LAYER_TYPE,
    LAYOUT,
    LAYOUT_FILE,
    MANIFEST_TYPE,
    NAME_ANNOTATION,
)
from argosy_images.rootfs.archive import layer_tar
from argosy_images.store.lockfile import ImageLock
from argosy_images.store.store import Store

_CHUNK = 1 << 20


def export_image(store: Store, lock: ImageLock, target: Path) -> int:
    """Write the image to `target` atomically; return the file's size in bytes.

    Raises:
        ArgosyError: if a layer is missing in the store, or has changed.
    """
    layers = find_layers(store, lock)
    if target.is_dir():
        raise ArgosyError(f"{target}: this is a folder", "name the file to write")
    if str(target) == "-" or (target.exists() and not target.is_file()):
        # The file is not written from start to end.
        raise ArgosyError(f"{target}: archives are written to files only", "name the file to write")

    def write(temporary: Path) -> str:
        with temporary.open("w+b") as stream:
            archive = _Archive(stream)
            blobs = [archive.add_layer(*layer) for layer in layers]
            _describe(archive, lock, blobs)
            archive.end()
        return ""

    with replacing(target) as temporary:
        unhindered(lambda: write(temporary))
        return temporary.stat().st_size


def _describe(archive: "_Archive", lock: ImageLock, layers: Sequence[dict[str, Any]]) -> None:
    name = f"localhost/{lock.name}:latest"
    config = archive.add_blob(lock.oci_bytes, CONFIG_TYPE)
    manifest = archive.add_blob(
        _json(
            {"schemaVersion": 2, "mediaType": MANIFEST_TYPE, "config": config, "layers": layers},
        ),
        MANIFEST_TYPE,
    )
    index = {**manifest, "annotations": {NAME_ANNOTATION: name}}
    archive.add(
        "index.json", _json({"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": [index]})
    )
    archive.add(LAYOUT_FILE, _json(LAYOUT))
    docker = {"Config": _path(config["digest"]), "RepoTags": [name]}
    archive.add(
        "manifest.json",
        _json([{**docker, "Layers": [_path(layer["digest"]) for layer in layers]}]),
    )


class _Archive:
    """A tar being written, with constant times and owners."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._layers: dict[str, dict[str, Any]] = {}
        # skopeo would try to create missing folders as root's.
        for name in ("blobs", "blobs/sha256"):
            stream.write(_header(name, 0, tarfile.DIRTYPE, 0o755))

    def add(self, name: str, content: bytes) -> None:
        self._stream.write(_header(name, len(content)))
        self._stream.write(content)
        self._pad()

    def add_blob(self, content: bytes, kind: str) -> dict[str, Any]:
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        self.add(_path(digest), content)
        return {"mediaType": kind, "digest": digest, "size": len(content)}

    def add_layer(self, key: str, diff: Path, cached: CachedStep) -> dict[str, Any]:
        """Write the layer's tar, then its length into the header."""
        assert cached.diff_id
        if cached.diff_id in self._layers:
            return self._layers[cached.diff_id]
        name, begin = _path(cached.diff_id), self._stream.tell()
        self._stream.write(_header(name, 0))
        digest, size = hashlib.sha256(), 0
        with layer_tar(diff, cached.change) as tar:
            while chunk := tar.read(_CHUNK):
                digest.update(chunk)
                size += self._stream.write(chunk)
        if cached.diff_id != f"sha256:{digest.hexdigest()}":
            raise ArgosyError(
                f"{diff}: this layer has changed since it was made ({cached.instruction})",
                f"remove {diff.parent} and build the image again",
            )
        self._pad()
        end = self._stream.tell()
        self._stream.seek(begin)
        self._stream.write(_header(name, size))
        self._stream.seek(end)
        blob = {"mediaType": LAYER_TYPE, "digest": cached.diff_id, "size": size}
        self._layers[cached.diff_id] = blob
        return blob

    def end(self) -> None:
        self._stream.write(bytes(2 * tarfile.BLOCKSIZE))

    def _pad(self) -> None:
        self._stream.write(bytes(-self._stream.tell() % tarfile.BLOCKSIZE))


def _header(name: str, size: int, kind: bytes = tarfile.REGTYPE, mode: int = 0o644) -> bytes:
    """Return a header block in GNU format, which allows files above 8 GiB."""
    member = tarfile.TarInfo(name)
    member.size, member.type, member.mode = size, kind, mode
    return member.tobuf(tarfile.GNU_FORMAT)


def _path(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def _json(value: Mapping[str, Any] | Sequence[Any]) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
