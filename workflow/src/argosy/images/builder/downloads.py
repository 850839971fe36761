"""Download what ADD names: to a file, never into memory, and only as long as the disk and time allow."""

import hashlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from typing import BinaryIO

from argosy.images.store.free_disk import why_no_room
from argosy.images.store.store import remove_tree

TIMEOUT_S = 60
"""Seconds in which something must come, and in which so many bytes must:"""
LEAST = 64 << 10
CHUNK = 1 << 20


class DownloadError(Exception):
    """A file that cannot be had; the message says why."""


@contextmanager
def downloaded(url: str, aside: Path) -> Iterator[tuple[BinaryIO, str]]:
    """Download what an address gives, and take its SHA-256 in hexadecimal; it is kept in `aside` meanwhile.

    Raises:
        DownloadError: as `download`.
    """
    aside.mkdir(mode=0o700)
    try:
        digest = download(url, aside / "part")
        with (aside / "part").open("rb") as content:
            yield content, digest
    finally:
        remove_tree(aside)


def download(url: str, part: Path) -> str:
    """Write what an address gives to the new file `part`, and return its SHA-256, in hexadecimal.

    Raises:
        DownloadError: when it cannot be had, does not fit, or comes too slowly.
    """
    # Imported where it is needed: few images download a file.
    from urllib.request import urlopen

    digest = hashlib.sha256()
    try:
        with urlopen(url, timeout=TIMEOUT_S) as answer, part.open("xb") as stream:
            length = answer.length
            came, since, before = 0, time.monotonic(), 0
            # What is there is taken: a whole chunk might be waited for for days.
            while chunk := answer.read1(CHUNK):
                if why := why_no_room(part.parent, len(chunk)):
                    raise DownloadError(why)
                stream.write(chunk)
                digest.update(chunk)
                came += len(chunk)
                if time.monotonic() - since > TIMEOUT_S:
                    if came - before < LEAST:
                        raise DownloadError(f"less than {LEAST} bytes came in {TIMEOUT_S} s")
                    since, before = time.monotonic(), came
            if length is not None and came < length:
                raise DownloadError(f"cut off: {length - came} of {length} bytes did not come")
    except (OSError, HTTPException) as problem:
        raise DownloadError(" ".join(str(problem).split()) or type(problem).__name__) from None
    return digest.hexdigest()
