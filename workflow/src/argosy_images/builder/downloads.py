"""Download files to disk, within limits of space and time."""

import hashlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import urlsplit

from argosy_common.disk import remove_tree, why_no_room
from argosy_images.registry.reference import is_loopback, reaches_here

if TYPE_CHECKING:
    from urllib.request import OpenerDirector

TIMEOUT_S = 60
"""Seconds of silence that end a download, and seconds in which LEAST bytes must arrive."""
LEAST = 64 << 10
CHUNK = 1 << 20


class DownloadError(Exception):
    """The download failed; the message gives the reason."""


@contextmanager
def downloaded(url: str, aside: Path) -> Iterator[tuple[BinaryIO, str]]:
    """Download a URL into the folder `aside`, and yield the open file and its SHA-256 in hexadecimal."""
    aside.mkdir(mode=0o700)
    try:
        digest = download(url, aside / "part")
        with (aside / "part").open("rb") as content:
            yield content, digest
    finally:
        remove_tree(aside)


def download(url: str, part: Path) -> str:
    """Download a URL to the new file `part`, and return its SHA-256 in hexadecimal.

    Raises:
        DownloadError: if the URL cannot be read, or the file is too large or too slow.
    """
    digest = hashlib.sha256()
    try:
        with _opener().open(url, timeout=TIMEOUT_S) as answer, part.open("xb") as stream:
            length = answer.length
            came, since, before = 0, time.monotonic(), 0
            # read1 returns the bytes at hand: a whole chunk might take days.
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
                raise DownloadError(f"cut off: {length - came} of {length} bytes are missing")
    except (OSError, HTTPException) as problem:
        raise DownloadError(" ".join(str(problem).split()) or type(problem).__name__) from None
    return digest.hexdigest()


def _opener() -> "OpenerDirector":
    """Return an opener that refuses redirects from https to http, and to this machine."""
    # Imported late: few images download a file.
    from urllib.request import HTTPRedirectHandler, build_opener

    class CarefulRedirects(HTTPRedirectHandler):
        def redirect_request(self, req: Any, *others: Any) -> Any:
            own, target = urlsplit(req.full_url), urlsplit(others[-1])
            is_less_safe = target.scheme not in ("https", own.scheme)
            is_inward = own.hostname != target.hostname and reaches_here(target.hostname or "")
            if is_less_safe or (is_inward and not is_loopback(own.hostname or "")):
                raise DownloadError(
                    f"{own.netloc} redirects to {target.scheme}://{target.netloc}, which is not followed"
                )
            return super().redirect_request(req, *others)

    return build_opener(CarefulRedirects)
