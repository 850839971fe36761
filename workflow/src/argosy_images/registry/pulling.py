"""Pulls an image: a folder of it that other tools could read as well (OCI image layout).

Blobs come into <store>/cache/blobs/, where the next try finds what this one got, and have a second name
in the folder, so that nothing that happens there meanwhile matters to who unpacks them.
"""

import hashlib
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from argosy_common.disk import why_no_room
from argosy_common.errors import ArgosyError
from argosy_common.files import write_json
from argosy_common.units import amount
from argosy_images.oci import INDEX_TYPE, LAYOUT, LAYOUT_FILE, NAME_ANNOTATION
from argosy_images.registry.client import Client
from argosy_images.registry.downloading import digest_of, download
from argosy_images.registry.manifests import KINDS, Contents, Descriptor, read_contents
from argosy_images.registry.reference import Reference
from argosy_images.registry.registries_conf import places_of
from argosy_images.registry.retry import Patience
from argosy_images.rootfs.flatten import link
from argosy_images.store.store import Store

AT_ONCE = 4
"""Connections to a registry; more of them would only make others slower."""

SAY_EVERY_S = 5.0

PART = ".part"

Say = Callable[[str], None]


@dataclass(frozen=True)
class Pulled:
    """An image in a folder.

    Args:
        reference: with the digest that its tag stood for.
        cached: its blobs in the cache, for which there is no use once it is in the store.
    """

    reference: Reference
    folder: Path
    cached: tuple[Path, ...]

    def forget_downloads(self) -> None:
        """Free the room that the blobs take, as far as they have no other name."""
        for path in self.cached:
            path.unlink(missing_ok=True)


def pull(store: Store, client: Client, folder: Path, say: Say) -> Pulled:
    """Download the image of a client's reference into the new `folder`, an OCI image layout.

    Raises:
        ArgosyError: saying what is wrong. What was downloaded stays for the next try.
    """
    contents = read_contents(client)
    layers, size = len(contents.blobs) - 1, amount(sum(blob.size for blob in contents.blobs))
    say(f"pulling {contents.reference}: {layers} layer{'' if layers == 1 else 's'}, {size}")
    cache = store.blobs
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True, mode=0o700)
    cache.mkdir(parents=True, exist_ok=True, mode=0o700)
    # With two pulls at once, the second finds the shared blobs.
    with store.locked("registry"):
        if why := why_no_room(cache, _missing(contents.blobs, cache)):
            raise ArgosyError(
                f"{contents.reference}: {cache}: {why}",
                "free space, or set ARGOSY_STORE to a folder on another disk",
            )
        _Downloads(client, cache, blobs, Progress(contents.blobs, say)).run(contents.blobs)
    _describe(folder, contents)
    names = tuple(cache / _hex(blob.digest) for blob in contents.blobs)
    return Pulled(contents.reference, folder, names)


def _missing(blobs: Sequence[Descriptor], cache: Path) -> int:
    """Return bytes that are still to be downloaded."""
    missing = 0
    for blob in blobs:
        cached = cache / _hex(blob.digest)
        if not cached.exists():
            part = _part_of(cached)
            here = part.stat().st_size if part.exists() else 0
            missing += max(0, blob.size - here)
    return missing


def _part_of(cached: Path) -> Path:
    """Return what there is of a blob that is not whole yet."""
    return cached.with_name(cached.name + PART)


class Progress:
    """Tells how far a pull is, in a line every few seconds."""

    def __init__(self, blobs: Sequence[Descriptor], say: Say) -> None:
        self._size = sum(blob.size for blob in blobs)
        self._blobs = len(blobs)
        self._say = say
        self._lock = threading.Lock()
        self._done = self._whole = 0
        self._told = time.monotonic()

    def count(self, number: int) -> None:
        """Count bytes that came; or that were in vain, as a negative number."""
        with self._lock:
            self._done += number
            if time.monotonic() - self._told < SAY_EVERY_S:
                return
            self._told = time.monotonic()
            line = f"{self._whole} of {self._blobs} files whole, "
            line += f"{amount(self._done)} of {amount(self._size)} here"
        self._say(line)

    def finish(self) -> None:
        """Note that one more blob is whole."""
        with self._lock:
            self._whole += 1


class _Downloads:
    """The blobs of an image, several at a time."""

    def __init__(self, client: Client, cache: Path, blobs: Path, progress: Progress) -> None:
        self._client = client
        self._cache = cache
        self._blobs = blobs
        self._progress = progress

    def run(self, blobs: Sequence[Descriptor]) -> None:
        # The largest first, so that none of them is waited for alone at the end.
        ordered = sorted(blobs, key=lambda blob: -blob.size)
        with ThreadPoolExecutor(AT_ONCE) as threads:
            try:
                for done in as_completed([threads.submit(self._get, blob) for blob in ordered]):
                    done.result()
            except BaseException:
                self._client.stop()
                threads.shutdown(cancel_futures=True)
                raise

    def _get(self, blob: Descriptor) -> None:
        """Have a blob in the cache, and its second name in the folder."""
        cached, own = self._cache / _hex(blob.digest), self._blobs / _hex(blob.digest)
        if self._was_there(blob, cached, own):
            self._progress.count(blob.size)
        else:
            part = _part_of(cached)
            download(self._client, blob, part, self._progress.count)
            # In this order: by its name in the cache somebody else may forget it at once.
            link(str(part), str(own))
            part.rename(cached)
        self._progress.finish()

    def _was_there(self, blob: Descriptor, cached: Path, own: Path) -> bool:
        try:
            link(str(cached), str(own))
        except FileNotFoundError:
            return False
        if digest_of(own) == blob.digest:
            return True
        for path in (own, cached):
            path.unlink()
        return False


def _describe(folder: Path, contents: Contents) -> None:
    """Make an image layout of the folder."""
    digest = f"sha256:{hashlib.sha256(contents.manifest).hexdigest()}"
    (folder / "blobs" / "sha256" / _hex(digest)).write_bytes(contents.manifest)
    entry: dict[str, Any] = {
        "mediaType": contents.kind,
        "digest": digest,
        "size": len(contents.manifest),
        "annotations": {NAME_ANNOTATION: str(contents.reference)},
    }
    write_json(folder / LAYOUT_FILE, LAYOUT)
    write_json(
        folder / "index.json", {"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": [entry]}
    )


def _hex(digest: str) -> str:
    return digest.removeprefix("sha256:")


def reach(reference: Reference, patience: Patience, tries: int | None = None) -> Client:
    """Return a client of the first place that answers; a mirror has to have the image as well.

    Why a mirror was passed over is said. The image keeps its own name: its digest is the same everywhere.

    Args:
        tries: of each place; None: as often as for everything else.

    Raises:
        UnreachableError: when nobody answers at the last place.
        ArgosyError: when it cannot be trusted, or the settings of registries forbid or confuse it.
    """
    *mirrors, last = places_of(reference)
    for place in mirrors:
        client = Client(place, patience, named=reference)
        try:
            client.reach(tries=1)
            client.manifest(place.wanted, KINDS)
        except ArgosyError as problem:
            patience.say(f"mirror {place.host}: {problem.problem}")
        else:
            patience.say(f"taking {reference} from the mirror {place.host}")
            return client
    client = Client(last, patience, named=reference)
    client.reach(tries=tries)
    return client
