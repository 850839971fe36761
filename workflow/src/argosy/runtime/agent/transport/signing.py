"""Proof that a message comes from an agent of this job: HMAC-SHA256 with the job's token.

A request carries a nonce, the digest of its body, and a signature over method, path and both of
them: so a stranger is refused before the body is read. An answer is signed over the nonce of its
request, its status and its body, so it answers nothing else. The token itself never travels.
"""

from __future__ import annotations

import hashlib
import hmac
import itertools
import os

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
