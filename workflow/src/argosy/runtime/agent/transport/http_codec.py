"""The subset of HTTP that ranks and agents use: one request at a time, bodies of a known length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Mapping, Sequence

from ..rendezvous.store import MAX_VALUE

MAX_HEAD = 16 << 10
"""Most bytes before a body."""
MAX_BODY = MAX_VALUE + (1 << 16)
"""Most bytes of a message between agents."""
_MAX_LINES = 64
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
    """A request; its header names are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    length: int
    body: bytes = b""


@dataclass
class Answer:
    """An answer; its header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    length: int
    body: bytes = b""


def parse_head(data: bytes) -> Request:
    """Parse the head of a request. Raises ValueError."""
    first, *lines = data.decode("latin-1").split("\r\n", _MAX_LINES)
    method, path, _version = first.split(" ")
    headers = _parse_headers(lines)
    return Request(method, path, headers, _length(headers))


def parse_answer(data: bytes) -> Answer:
    """Parse the head of an answer. Raises ValueError."""
    first, *lines = data.decode("latin-1").split("\r\n", _MAX_LINES)
    version, _, rest = first.partition(" ")
    status = rest[:3]
    if not version.startswith("HTTP/1.") or not (status.isascii() and status.isdigit()):
        raise ValueError(f"not an HTTP response: {first[:80]!r}")
    headers = _parse_headers(lines)
    return Answer(int(status), headers, _length(headers))


def ask(method: str, path: str, headers: Mapping[str, str], body: bytes) -> bytes:
    return _encode(f"{method} {path} HTTP/1.1", headers, body)


def answer(status: int, body: bytes, headers: Mapping[str, str], *, last: bool) -> bytes:
    """Encode an answer; the `last` one closes the connection."""
    more = {"Connection": "close"} if last else {}
    return _encode(f"HTTP/1.1 {status} {_REASONS[status]}", {**headers, **more}, body)


def _encode(first: str, headers: Mapping[str, str], body: bytes) -> bytes:
    lines = [first, f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def _parse_headers(lines: Sequence[str]) -> dict[str, str]:
    headers = {}
    for line in lines:
        name, colon, value = line.partition(":")
        # If there are too many lines, the last one contains the others.
        if not colon or "\r\n" in value:
            raise ValueError(f"not a header: {line[:80]!r}")
        headers[name.lower()] = value.strip()
    return headers


def _length(headers: Mapping[str, str]) -> int:
    length = headers.get("content-length", "0")
    # Refuse messages whose body another parser could delimit differently.
    if not (length.isascii() and length.isdigit()) or "transfer-encoding" in headers:
        raise ValueError(f"not a length: {length[:80]!r}")
    return int(length[:18])
