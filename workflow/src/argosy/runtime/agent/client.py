"""Signed requests to the head."""

from __future__ import annotations

import http.client

from .settings import Settings
from .signing import NONCE_HEADER, SIGNATURE_HEADER, Nonces, Signer


class RefusedError(Exception):
    """The head is there but does not take this agent for one of its job."""


class FullError(Exception):
    """The head has no room for more."""


class HeadClient:
    """One connection with the head, made again whenever it was lost. For one thread at a time."""

    def __init__(self, settings: Settings) -> None:
        self._address = (settings.head_address, settings.head_port)
        self._signer = Signer(settings.token)
        self._nonces = Nonces()
        self._connection: http.client.HTTPConnection | None = None

    def ask(self, path: str, body: bytes, timeout: float) -> bytes:
        """The head's answer.

        Raises:
            OSError, HTTPException, ValueError: there is none that could be believed.
            RefusedError, FullError: there is, and it is no.
        """
        if self._connection:
            try:
                return self._ask_once(path, body, timeout)
            except (ConnectionError, http.client.HTTPException):
                pass  # The connection may have ended long before this request.
        return self._ask_once(path, body, timeout)

    def close(self) -> None:
        """End the connection; the next request makes a new one."""
        if self._connection:
            self._connection.close()
            self._connection = None

    def _ask_once(self, path: str, body: bytes, timeout: float) -> bytes:
        try:
            connection = self._connected(timeout)
            nonce = self._nonces.next()
            headers = self._signer.request_headers("POST", path, nonce, body)
            connection.request("POST", path, body, headers)
            return self._read(connection.getresponse(), headers[NONCE_HEADER])
        except BaseException:
            self.close()
            raise

    def _connected(self, timeout: float) -> http.client.HTTPConnection:
        if not self._connection:
            self._connection = http.client.HTTPConnection(*self._address, timeout=timeout)
            self._connection.connect()
        self._connection.sock.settimeout(timeout)
        return self._connection

    def _read(self, answer: http.client.HTTPResponse, nonce: str) -> bytes:
        if answer.status == 403:
            raise RefusedError
        body = answer.read()
        signature = answer.getheader(SIGNATURE_HEADER, "")
        if not self._signer.answered(nonce, answer.status, body, signature):
            raise ValueError("the answer is not the head's: it is not signed with the job's token")
        if answer.status == 413:
            raise FullError
        if answer.status != 200:
            raise ValueError(f"the head answered {answer.status}")
        return body
