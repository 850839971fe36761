"""Signed requests to the head."""

from __future__ import annotations

import socket
import time

from ..settings import Settings
from .http_codec import MAX_BODY, MAX_HEAD, Answer, ask, parse_answer
from .signing import NONCE_HEADER, SIGNATURE_HEADER, Nonces, Signer

_CHUNK = 1 << 18


class FullError(Exception):
    """The head's store is full."""


class HeadClient:
    """One connection to the head, opened again when it is lost. For one thread at a time.

    An answer is untrusted until its signature is checked, so its size and time are limited. Unsigned
    answers, even refusals, are errors.
    """

    def __init__(self, settings: Settings) -> None:
        self._address = (settings.head_address, settings.head_port)
        self._signer = Signer(settings.token)
        self._nonces = Nonces()
        self._socket: socket.socket | None = None
        self._received = bytearray()

    def ask(self, path: str, body: bytes, timeout: float) -> bytes:
        """Send a request and return the body of the answer.

        Raises:
            OSError, ValueError: no valid answer arrived within `timeout` seconds.
            FullError: the head refused the request, since its store is full.
        """
        if self._socket:
            try:
                return self._ask_once(path, body, timeout)
            except ConnectionError:
                pass  # an idle connection may have ended
        return self._ask_once(path, body, timeout)

    def close(self) -> None:
        """Close the connection; the next request opens a new one."""
        if self._socket:
            self._socket.close()
        self._socket = None
        self._received.clear()

    def _ask_once(self, path: str, body: bytes, timeout: float) -> bytes:
        deadline = time.monotonic() + timeout
        try:
            headers = self._signer.request_headers("POST", path, self._nonces.next(), body)
            answer = self._exchange(ask("POST", path, headers, body), deadline)
            return self._believed(answer, headers[NONCE_HEADER])
        except BaseException:
            self.close()
            raise

    def _believed(self, answer: Answer, nonce: str) -> bytes:
        signature = answer.headers.get(SIGNATURE_HEADER, "")
        if not self._signer.answered(nonce, answer.status, answer.body, signature):
            raise ValueError("the answer is not the head's: it is not signed with the job's token")
        if answer.status == 413:
            raise FullError
        if answer.status != 200:
            raise ValueError(f"the head answered {answer.status}")
        return answer.body

    def _exchange(self, request: bytes, deadline: float) -> Answer:
        """Send a request and return the answer; times out at `deadline` (monotonic)."""
        self._connected(deadline).sendall(request)
        while (end := self._received.find(b"\r\n\r\n", 0, MAX_HEAD)) < 0:
            if len(self._received) >= MAX_HEAD:
                raise ValueError(f"the answer is not the head's: over {MAX_HEAD} bytes of headers")
            self._receive(deadline)
        answer = parse_answer(bytes(self._received[:end]))
        if answer.length > MAX_BODY:
            raise ValueError(f"the answer is not the head's: {answer.length} bytes are announced")
        del self._received[: end + 4]
        while len(self._received) < answer.length:
            self._receive(deadline)
        answer.body = bytes(self._received[: answer.length])
        del self._received[: answer.length]
        return answer

    def _receive(self, deadline: float) -> None:
        data = self._connected(deadline).recv(_CHUNK)
        if not data:
            raise ConnectionResetError("the connection was closed without an answer")
        self._received += data

    def _connected(self, deadline: float) -> socket.socket:
        """Return the connection, whose operations time out at `deadline`."""
        if self._socket is None:
            self._socket = socket.create_connection(self._address, deadline - time.monotonic())
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        left = deadline - time.monotonic()
        if left <= 0:
            raise socket.timeout("timed out")
        self._socket.settimeout(left)
        return self._socket
