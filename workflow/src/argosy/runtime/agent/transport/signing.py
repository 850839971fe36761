"""Signatures of messages between agents: HMAC-SHA256 with the job's token.

A request carries a nonce, the digest of its body, and a signature over method, path, nonce and digest:
so unsigned requests are refused before their body is read. An answer is signed over the request's
nonce, its status and its body, so it is valid for this request only. The token is never sent.

Ranks must not learn the token. A process may read the memory and environment of dumpable processes of
its user (proc(5), ptrace(2)), so the agent makes itself undumpable before it starts ranks.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import itertools
import os
from typing import Mapping, MutableMapping

from ..kernel_files import status_of
from .http_codec import Request

NONCE_HEADER = "argosy-nonce"
DIGEST_HEADER = "argosy-digest"
SIGNATURE_HEADER = "argosy-signature"


class Signer:
    """Signs and verifies messages with one token."""

    def __init__(self, token: str) -> None:
        self._key = hmac.new(token.encode(), digestmod=hashlib.sha256)

    def request_headers(self, method: str, path: str, nonce: str, body: bytes) -> dict[str, str]:
        """Return the headers that sign a request."""
        digest = digest_of(body)
        return {
            NONCE_HEADER: nonce,
            DIGEST_HEADER: digest,
            SIGNATURE_HEADER: self._sign("request", method, path, nonce, digest),
        }

    def signed(self, request: Request) -> bool:
        """Return whether the signature of a request is valid; its body may be missing."""
        headers = request.headers
        expected = self._sign(
            "request",
            request.method,
            request.path,
            headers.get(NONCE_HEADER, ""),
            headers.get(DIGEST_HEADER, ""),
        )
        return _same(headers.get(SIGNATURE_HEADER, ""), expected)

    def whole(self, request: Request) -> bool:
        """Return whether the body matches the signed digest."""
        return _same(request.headers.get(DIGEST_HEADER, ""), digest_of(request.body))

    def answer_headers(self, nonce: str, status: int, digest: str) -> dict[str, str]:
        """Return the headers that sign an answer with this digest of its body."""
        return {SIGNATURE_HEADER: self._sign("answer", nonce, str(status), digest)}

    def answered(self, nonce: str, status: int, body: bytes, signature: str) -> bool:
        """Return whether an answer to the request with this nonce is signed by the head."""
        return _same(signature, self._sign("answer", nonce, str(status), digest_of(body)))

    def _sign(self, *parts: str) -> str:
        mac = self._key.copy()
        # No part contains a newline: all come from lines.
        mac.update("\n".join(parts).encode("latin-1"))
        return mac.hexdigest()


class Nonces:
    """Nonces of one client: a random session and a counter."""

    def __init__(self) -> None:
        self._session = os.urandom(16).hex()
        self._numbers = itertools.count(1)

    def next(self) -> str:
        return f"{self._session}-{next(self._numbers)}"


class Once:
    """Admits each nonce once, so that recorded requests cannot be replayed.

    Check only signed requests, so that strangers cannot fill the memory.
    """

    def __init__(self) -> None:
        self._last: dict[str, int] = {}

    def admits(self, nonce: str) -> bool:
        """Return whether the nonce is newer than all earlier ones of its session."""
        session, _, number = nonce.partition("-")
        if not number.isdigit() or int(number) <= self._last.get(session, 0):
            return False
        self._last[session] = int(number)
        return True


def digest_of(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode("latin-1"), expected.encode("latin-1"))


TOKEN = "ARGOSY_TOKEN"
TOKEN_FILE = "ARGOSY_TOKEN_FILE"
_PR_SET_DUMPABLE = 4  # prctl(2)


def take_secrets(environ: MutableMapping[str, str]) -> Mapping[str, str]:
    """Return the variables with the token, and remove the token's variable and file. Raises OSError.

    Containers get the token in a file: other processes can read the environment of their first process.
    """
    hide_memory()
    variables = dict(environ)
    environ.pop(TOKEN, None)
    path = environ.pop(TOKEN_FILE, None)
    if path:
        with open(path, encoding="ascii") as file:
            variables[TOKEN] = file.read()
        os.unlink(path)
    return variables


def hide_memory() -> None:
    """Keep other processes of this user from reading the memory of this process and its forks."""
    if _is_traced():
        return
    with contextlib.suppress(ImportError, OSError, AttributeError):
        import ctypes  # some small Pythons lack it

        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def _is_traced() -> bool:
    """Return whether a tracer such as proot needs to read this process's memory."""
    return status_of("self", "TracerPid") not in ("", "0")
