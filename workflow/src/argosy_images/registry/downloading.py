"""Downloads one blob, goes on where an earlier try ended, and believes nothing but its digest."""

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
"""Bytes of a try that was not in vain: a long file may be cut off any number of times."""

Count = Callable[[int], None]
"""Is told of bytes that came, or with a minus that have to come again."""


def download(client: Client, blob: Descriptor, part: Path, count: Count) -> None:
    """Make the file `part` the whole of a blob, proved; what is there of it already is used.

    Raises:
        PassingError: when the registry does not give all of it even after several tries.
        ArgosyError: when what it gives is something else, twice, or the disk is full.
    """
    for is_last in (False, True):
        _complete(client, blob, part, count)
        if digest_of(part) == blob.digest:
            return
        # Bytes of an earlier try may be at fault, or what was in between this time.
        count(-part.stat().st_size)
        part.unlink()
        if is_last:
            raise ArgosyError(
                f"{_title(client, blob)}: digest mismatch (twice): the registry or a proxy "
                "sent wrong data"
            )


def digest_of(path: Path) -> str:
    """Return the digest of a file, `sha256:…`."""
    with path.open("rb") as stream:
        return f"sha256:{hashlib.file_digest(stream, 'sha256').hexdigest()}"


def _title(client: Client, blob: Descriptor) -> str:
    return f"{client.reference}: {blob.digest[:19]}"


def _complete(client: Client, blob: Descriptor, part: Path, count: Count) -> None:
    """Go on until the part is as long as the blob."""
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
    """Ask once for what is missing.

    Raises:
        PassingError: when not all of it came.
    """
    begin = part.stat().st_size
    # Not buffered: what came is in the part whatever happens next.
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
    """Yield the body of an answer, which must be `missing` bytes long."""
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
    """Return whether the answer begins where the part ends; else it is all of it, or nothing."""
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
