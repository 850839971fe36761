"""As much of HTTP as ranks and agents speak: one request at a time, bodies of a known length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Mapping

MAX_HEAD = 16 << 10
_REASONS = {
    200: "OK",
    400: "Bad Request",
    403: "Forbidden",
    404: "Not Found",
    411: "Length Required",
    413: "Payload Too Large",
    431: "Request Header Fields Too Large",
}


@dataclass
class Request:
    """A request; the names of its headers are in small letters."""

    method: str
    path: str
    headers: Mapping[str, str]
    length: int
    body: bytes = b""


def parse_head(data: bytes) -> Request:
    """The request that begins with these lines. Raises ValueError."""
    first, *lines = data.decode("latin-1").split("\r\n")
    method, path, _version = first.split(" ")
    headers = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon:
            raise ValueError(f"not a header: {line[:80]}")
        headers[name.lower()] = value.strip()
    length = headers.get("content-length", "0")
    # What another reader could see as a body of another length is refused.
    if not (length.isascii() and length.isdigit()) or "transfer-encoding" in headers:
        raise ValueError(f"not a length: {length[:80]}")
    return Request(method, path, headers, int(length[:18]))


def answer(status: int, body: bytes, headers: Mapping[str, str], *, last: bool) -> bytes:
    """An answer; after the `last` one the connection ends."""
    lines = [f"HTTP/1.1 {status} {_REASONS[status]}", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if last:
        lines.append("Connection: close")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body
