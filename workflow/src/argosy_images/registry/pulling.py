"""Pull an image to a folder in the OCI image layout.

Blobs are downloaded to <store>/cache/blobs/, where the next pull finds them, and hard-linked into the
folder, so that other pulls may delete the originals.
"""

import hashlib
import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import requests

from argosy_common.disk import why_no_room
from argosy_common.errors import FULL, ArgosyError
from argosy_common.files import write_json
from argosy_common.units import amount
from argosy_images.interchange.streams import Say, Seldom
from argosy_images.oci import INDEX_TYPE, LAYOUT, LAYOUT_FILE, NAME_ANNOTATION
from argosy_images.registry.client import Client
from argosy_images.registry.manifests import KINDS, Contents, Descriptor, read_contents
from argosy_images.registry.reference import Reference
from argosy_images.registry.registries_conf import places_of
from argosy_images.registry.retry import PassingError, Patience
from argosy_images.rootfs.flatten import link
from argosy_images.store.store import Store

AT_ONCE = 4
"""Parallel connections to a registry; more would only slow each other down."""

PART = ".part"

CHUNK = 1 << 18
ENOUGH = 1 << 20
"""Bytes of a try that count as progress: a download with progress may be cut off any number of times."""

Count = Callable[[int], None]
"""Counts received bytes; negative for bytes to download again."""


@dataclass(frozen=True)
class Pulled:
    """A pulled image in a folder.

    Args:
        reference: with the digest of its tag.
        cached: its blobs in the cache, to delete when the image is in the store.
    """

    reference: Reference
    folder: Path
    cached: tuple[Path, ...]

    def forget_downloads(self) -> None:
        """Delete the blobs from the cache."""
        for path in self.cached:
            path.unlink(missing_ok=True)


def pull(store: Store, client: Client, folder: Path, say: Say) -> Pulled:
    """Download the client's image to the new `folder`, an OCI image layout.

    Raises:
        ArgosyError: with the reason. Downloaded blobs stay for the next try.
    """
    contents = read_contents(client)
    layers, size = len(contents.blobs) - 1, amount(sum(blob.size for blob in contents.blobs))
    say(f"pulling {contents.reference}: {layers} layer{'' if layers == 1 else 's'}, {size}")
    cache = store.blobs
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True, mode=0o700)
    cache.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Of two pulls at once, the second finds the shared blobs in the cache.
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
    """Return the bytes that are missing in the cache."""
    missing = 0
    for blob in blobs:
        cached = cache / _hex(blob.digest)
        if not cached.exists():
            part = _part_of(cached)
            here = part.stat().st_size if part.exists() else 0
            missing += max(0, blob.size - here)
    return missing


def _part_of(cached: Path) -> Path:
    """Return the path of an unfinished blob."""
    return cached.with_name(cached.name + PART)


class Progress:
    """Prints a pull's progress every few seconds."""

    def __init__(self, blobs: Sequence[Descriptor], say: Say) -> None:
        self._size = sum(blob.size for blob in blobs)
        self._blobs = len(blobs)
        self._say = Seldom(say)
        self._lock = threading.Lock()
        self._done = self._whole = 0

    def count(self, number: int) -> None:
        """Count received bytes; a negative number of bytes has to be received again."""
        with self._lock:
            self._done += number
            received = f"{amount(self._done)} of {amount(self._size)} received"
            self._say(f"{self._whole} of {self._blobs} files complete, {received}")

    def finish(self) -> None:
        """Count a finished blob."""
        with self._lock:
            self._whole += 1


class _Downloads:
    """Downloads the blobs of an image in parallel."""

    def __init__(self, client: Client, cache: Path, blobs: Path, progress: Progress) -> None:
        self._client = client
        self._cache = cache
        self._blobs = blobs
        self._progress = progress

    def run(self, blobs: Sequence[Descriptor]) -> None:
        # Largest first, so that no large blob is left alone at the end.
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
        """Download a blob to the cache, and link it into the folder."""
        cached, own = self._cache / _hex(blob.digest), self._blobs / _hex(blob.digest)
        if self._was_there(blob, cached, own):
            self._progress.count(blob.size)
        else:
            part = _part_of(cached)
            _download(self._client, blob, part, self._progress.count)
            # Link first: another process may delete the blob from the cache at once.
            link(str(part), str(own))
            part.rename(cached)
        self._progress.finish()

    def _was_there(self, blob: Descriptor, cached: Path, own: Path) -> bool:
        try:
            link(str(cached), str(own))
        except FileNotFoundError:
            return False
        if _digest_of(own) == blob.digest:
            return True
        for path in (own, cached):
            path.unlink()
        return False


def _download(client: Client, blob: Descriptor, part: Path, count: Count) -> None:
    """Complete the file `part` to the whole blob, and verify its digest.

    Raises:
        PassingError: if the registry does not send all of it after several tries.
        ArgosyError: if the digest is wrong twice, or the disk is full.
    """
    for is_last in (False, True):
        _complete(client, blob, part, count)
        if _digest_of(part) == blob.digest:
            return
        # The partial file or the connection may have been corrupt: try once more from the start.
        count(-part.stat().st_size)
        part.unlink()
        if is_last:
            raise ArgosyError(
                f"{_title(client, blob)}: digest mismatch (twice): the registry or a proxy "
                "sent wrong data"
            )


def _digest_of(path: Path) -> str:
    """Return a file's digest, `sha256:…`."""
    with path.open("rb") as stream:
        return f"sha256:{hashlib.file_digest(stream, 'sha256').hexdigest()}"


def _title(client: Client, blob: Descriptor) -> str:
    return f"{client.reference}: {blob.digest[:19]}"


def _complete(client: Client, blob: Descriptor, part: Path, count: Count) -> None:
    """Download until the part has the blob's size."""
    if part.exists() and part.stat().st_size > blob.size:
        part.unlink()
    part.touch(mode=0o600)
    count(part.stat().st_size)
    while part.stat().st_size < blob.size:
        before = part.stat().st_size
        try:
            client.patience.retry(lambda: _fetch_more(client, blob, part, count))
        except PassingError:
            if client.patience.stop.is_set() or part.stat().st_size - before < ENOUGH:
                raise


def _fetch_more(client: Client, blob: Descriptor, part: Path, count: Count) -> None:
    """Request the missing bytes once.

    Raises:
        PassingError: if the response is incomplete.
    """
    begin = part.stat().st_size
    # Unbuffered: received bytes stay in the part after any failure.
    with (
        client.blob(blob.digest, begin) as response,
        part.open("r+b", buffering=0) as stream,
    ):
        if begin and not _goes_on(response, begin):
            count(-begin)
            stream.truncate(0)
        if response.status_code == 416:
            raise PassingError(f"{_title(client, blob)}: the registry sent less than it announced")
        stream.seek(0, os.SEEK_END)
        for chunk in _chunks(client, blob, response, blob.size - stream.tell()):
            _write(stream, chunk)
            count(len(chunk))


def _chunks(
    client: Client, blob: Descriptor, response: requests.Response, missing: int
) -> Iterator[bytes]:
    """Yield the body of a response, which must have `missing` bytes."""
    # read1 returns the bytes at hand: a slow registry would take minutes for a chunk.
    while chunk := response.raw.read1(CHUNK, decode_content=False):
        if client.patience.stop.is_set():
            raise PassingError(f"{_title(client, blob)}: stopped, since another part failed")
        missing -= len(chunk)
        if missing < 0:
            raise ArgosyError(
                f"{_title(client, blob)}: the registry sends more than its {blob.size} bytes"
            )
        yield chunk
    if missing:
        raise PassingError(
            f"{_title(client, blob)}: {missing} of its {blob.size} bytes are missing"
        )


def _goes_on(response: requests.Response, begin: int) -> bool:
    """Return whether the response begins at byte `begin`, not at the start."""
    told = re.match(rf"bytes {begin}-", response.headers.get("Content-Range", ""))
    return response.status_code == 206 and told is not None


def _write(stream: IO[bytes], chunk: bytes) -> None:
    try:
        left = memoryview(chunk)
        while left:
            left = left[stream.write(left) :]
    except OSError as problem:
        if problem.errno not in FULL:
            raise
        raise ArgosyError(
            f"{stream.name}: {problem.strerror}",
            "free space and run again: the received part is kept",
        ) from None


def _describe(folder: Path, contents: Contents) -> None:
    """Write the files that make the folder an image layout."""
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
    """Return a client of the first mirror that has the image, else of the registry.

    Skipped mirrors are reported. The image keeps its name, since its digest is the same everywhere.

    Args:
        tries: number of tries of the registry; None: as for other requests.

    Raises:
        UnreachableError: if the registry does not respond.
        ArgosyError: if its certificate is invalid, or registries.conf blocks it or is damaged.
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
