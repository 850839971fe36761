"""Download a blob, resume partial downloads, and verify the digest."""

import hashlib
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import requests

from argosy_common.errors import FULL, ArgosyError
from argosy_images.registry.client import Client
from argosy_images.registry.manifests import Descriptor
from argosy_images.registry.retry import PassingError

CHUNK = 1 << 18
ENOUGH = 1 << 20
"""Bytes of a try that count as progress: a download with progress may be cut off any number of times."""

Count = Callable[[int], None]
"""Counts received bytes; negative for bytes to download again."""


def download(client: Client, blob: Descriptor, part: Path, count: Count) -> None:
    """Complete the file `part` to the whole blob, and verify its digest.

    Raises:
        PassingError: if the registry does not send all of it after several tries.
        ArgosyError: if the digest is wrong twice, or the disk is full.
    """
    for is_last in (False, True):
        _complete(client, blob, part, count)
        if digest_of(part) == blob.digest:
            return
        # The partial file or the connection may have been corrupt: try once more from the start.
        count(-part.stat().st_size)
        part.unlink()
        if is_last:
            raise ArgosyError(
                f"{_title(client, blob)}: digest mismatch (twice): the registry or a proxy "
                "sent wrong data"
            )


def digest_of(path: Path) -> str:
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
            client.patience.with_it(lambda: _fetch_more(client, blob, part, count))
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
    while chunk := response.raw.read(CHUNK, decode_content=False):
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
