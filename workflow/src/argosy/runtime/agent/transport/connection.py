"""One client's connection with a server: reads a request, has it answered, reads the next."""

from __future__ import annotations

import contextlib
import selectors
import socket
import time
from typing import Mapping, Protocol

from .http_codec import MAX_HEAD, Request, answer, parse_head
from .peers import Endpoint

_CHUNK = 1 << 18
# Seconds for a request to come, for its answer to go, and for the next request to begin.
_READ_TIME, _WRITE_TIME, _IDLE_TIME = 5.0, 30.0, 60.0
_LINGER_TIME = 1.0


class Service(Protocol):
    """What a server does with requests; all of it in the server's thread."""

    def welcome(self, peer: Endpoint) -> bool:
        """Return whether to serve who connects from there; asked before anything is read."""

    def admit(self, connection: Connection, request: Request) -> int | None:
        """Return the status with which to refuse a request before its body is read.

        An accepted connection is no longer closed to make room.
        """

    def handle(self, connection: Connection, request: Request) -> None:
        """Answer a request, now or later, by the connection's `answer`."""

    def turn(self) -> float:
        """Do what is due; returns the seconds until something else may be."""


class ConnectionOwner(Protocol):
    """What a connection needs of the server that accepted it."""

    service: Service

    def watch(self, sock: socket.socket, connection: Connection, before: int, after: int) -> None:
        """Call the connection's `ready` for the events `after`; `before` are those watched until now."""

    def know(self, connection: Connection) -> None:
        """Keep the connection when others are closed to make room: a request was admitted from it."""

    def forget(self, connection: Connection) -> None:
        """Drop the connection, which is closed."""


class Connection:
    """Never waits: what cannot be done now is done when the socket is ready for it."""

    def __init__(self, server: ConnectionOwner, sock: socket.socket, peer: Endpoint) -> None:
        self._server = server
        self._socket = sock
        self.peer = peer
        self.deadline = time.monotonic() + _READ_TIME
        self._events = 0
        self._received = bytearray()
        self._request: Request | None = None
        self._unsent = memoryview(b"")
        self._waiting = self._last = self._lingering = self._known = False
        self.closed = False

    def ready(self, events: int) -> None:
        """Go on where the socket allows it."""
        if events & selectors.EVENT_WRITE:
            self._write()
        if events & selectors.EVENT_READ and not self.closed:
            self._read()

    def _read(self) -> None:
        try:
            data = self._socket.recv(_CHUNK if self._known else MAX_HEAD)
        except BlockingIOError:
            self._watch(selectors.EVENT_READ)
            return
        except OSError:
            data = b""
        # Nobody here sends a request before the last one is answered.
        if not data or (self._waiting and not self._lingering):
            self.close()
        elif not self._lingering:
            self._received += data
            self._proceed()
        if not self.closed and not self._unsent:
            self._watch(selectors.EVENT_READ)

    def answer(
        self,
        status: int,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        *,
        last: bool = False,
    ) -> None:
        """Answer the request; after the `last` answer the connection ends."""
        if self.closed:
            return
        self._waiting, self._last = False, last
        self.deadline = time.monotonic() + _WRITE_TIME
        self._unsent = memoryview(answer(status, body, headers or {}, last=last))
        self._write()

    def close(self) -> None:
        """End it, whatever its state."""
        if not self.closed:
            self.closed = True
            self._watch(0)
            self._socket.close()
            self._server.forget(self)

    def _proceed(self) -> None:
        while not (self.closed or self._waiting or self._last or self._unsent):
            if self._request is None and not self._begin():
                return
            request = self._request
            if request is None or len(self._received) < request.length:
                return
            with memoryview(self._received) as received:
                request.body = bytes(received[: request.length])
            del self._received[: request.length]
            self._request = None
            self._waiting = True
            self.deadline = float("inf")
            self._server.service.handle(self, request)

    def _begin(self) -> bool:
        end = self._received.find(b"\r\n\r\n", 0, MAX_HEAD)
        if end < 0:
            if len(self._received) >= MAX_HEAD:
                self.answer(431, last=True)
            return False
        self.deadline = time.monotonic() + _READ_TIME
        try:
            request = parse_head(bytes(self._received[:end]))
        except ValueError:
            self.answer(400, last=True)
            return False
        del self._received[: end + 4]
        refused = self._server.service.admit(self, request)
        if refused:
            self._request = request
            self.answer(refused, last=True)
            return False
        self._request = request
        self._known = True
        self._server.know(self)
        return True

    def _write(self) -> None:
        try:
            self._unsent = self._unsent[self._socket.send(self._unsent) :]
        except BlockingIOError:
            pass
        except OSError:
            self.close()
            return
        if self._unsent:
            self._watch(selectors.EVENT_WRITE)
        elif self._last:
            self._end()
        else:
            self.deadline = time.monotonic() + _IDLE_TIME
            self._watch(selectors.EVENT_READ)

    def _end(self) -> None:
        # Closing a socket with unread data would take the answer away from the client again.
        unread = self._request.length - len(self._received) if self._request else 0
        if unread <= 0 or self._lingering:
            self.close()
            return
        self._lingering = True
        self.deadline = time.monotonic() + _LINGER_TIME
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
        self._watch(selectors.EVENT_READ)

    def _watch(self, events: int) -> None:
        if events != self._events:
            self._server.watch(self._socket, self, self._events, events)
            self._events = events
