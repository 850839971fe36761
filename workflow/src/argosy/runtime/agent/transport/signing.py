"""Proof that a message comes from an agent of this job: HMAC-SHA256 with the job's token.

A request carries a nonce, the digest of its body, and a signature over method, path and both of
them: so a stranger is refused before the body is read. An answer is signed over the nonce of its
request, its status and its body, so it answers nothing else. The token itself never travels.

Ranks must not learn the token. A process may read the memory and environment of another one of its user
(proc(5), ptrace(2)) if the other can be dumped. An agent makes itself one that cannot, before it starts any
rank.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import itertools
import os
from typing import Mapping, MutableMapping

from .http_codec import Request

NONCE_HEADER = "argosy-nonce"
DIGEST_HEADER = "argosy-digest"
SIGNATURE_HEADER = "argosy-signature"


class Signer:
    """Signs and checks with one token."""

    def __init__(self, token: str) -> None:
        self._key = hmac.new(token.encode(), digestmod=hashlib.sha256)

    def request_headers(self, method: str, path: str, nonce: str, body: bytes) -> dict[str, str]:
        """Return the headers that make a request one of the job's."""
        digest = digest_of(body)
        return {
            NONCE_HEADER: nonce,
            DIGEST_HEADER: digest,
            SIGNATURE_HEADER: self._sign("request", method, path, nonce, digest),
        }

    def signed(self, request: Request) -> bool:
        """Return whether all of a request but its body, which need not be there yet, is genuine."""
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
        """Return whether the body is the one that was signed."""
        return _same(request.headers.get(DIGEST_HEADER, ""), digest_of(request.body))

    def answer_headers(self, nonce: str, status: int, digest: str) -> dict[str, str]:
        """Return the headers that make an answer, whose body has this digest, the head's."""
        return {SIGNATURE_HEADER: self._sign("answer", nonce, str(status), digest)}

    def answered(self, nonce: str, status: int, body: bytes, signature: str) -> bool:
        """Return whether this is the head's answer to the request with this nonce."""
        return _same(signature, self._sign("answer", nonce, str(status), digest_of(body)))

    def _sign(self, *parts: str) -> str:
        mac = self._key.copy()
        # No part can hold an end of line: they come from lines.
        mac.update("\n".join(parts).encode("latin-1"))
        return mac.hexdigest()


class Nonces:
    """Nonces of one client: the name of a session, and a number that grows."""

    def __init__(self) -> None:
        self._session = os.urandom(16).hex()
        self._numbers = itertools.count(1)

    def next(self) -> str:
        """Return a nonce that was never used before."""
        return f"{self._session}-{next(self._numbers)}"


class Once:
    """Admits each nonce once: a request that somebody recorded is worth nothing.

    To be asked about signed requests only, so that strangers cannot fill its memory.
    """

    def __init__(self) -> None:
        self._last: dict[str, int] = {}

    def admits(self, nonce: str) -> bool:
        """Return whether the nonce is later than all of its session before."""
        session, _, number = nonce.partition("-")
        if not number.isdigit() or int(number) <= self._last.get(session, 0):
            return False
        self._last[session] = int(number)
        return True


def digest_of(body: bytes) -> str:
    """Return the digest of a body."""
    return hashlib.sha256(body).hexdigest()


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode("latin-1"), expected.encode("latin-1"))


TOKEN = "ARGOSY_TOKEN"
TOKEN_FILE = "ARGOSY_TOKEN_FILE"
_PR_SET_DUMPABLE = 4  # prctl(2)


def take_secrets(environ: MutableMapping[str, str]) -> Mapping[str, str]:
    """Return the variables with the token, which is then in no file and no variable any more.

    In a container it comes by a file: its first process, a shell, keeps its own environment for all
    to read. Raises OSError.
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
    """Let no other process of this user read this one's memory, or that of what it forks."""
    if _is_traced():
        return
    with contextlib.suppress(ImportError, OSError, AttributeError):
        import ctypes  # some small Pythons lack it

        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def _is_traced() -> bool:
    """Return whether somebody traces this process, as proot does: it could read its memory no longer."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as file:
            return any(line.startswith("TracerPid:") and int(line[10:]) for line in file)
    except (OSError, ValueError):
        return False
