"""HTTP server: one thread serves all connections; an idle one costs only a descriptor."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import os
import selectors
import socket
import struct
import threading
import time
from typing import Callable, Mapping, Protocol

from .http_codec import MAX_HEAD, Request, answer, parse_head
from .peers import Endpoint

_BACKLOG = 4096
_ACCEPTS = 64  # per turn, so that new connections do not delay open ones
_SWEEP = 1.0  # seconds
_NO_ROOM_TIME = 0.02  # seconds
_NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_CHUNK = 1 << 18
# Seconds to read a request, to write its answer, and until the next request begins.
_READ_TIME, _WRITE_TIME, _IDLE_TIME = 5.0, 30.0, 60.0
_LINGER_TIME = 1.0


class Service(Protocol):
    """Handler of a server's requests, called in the server's thread."""

    def welcome(self, peer: Endpoint) -> bool:
        """Return whether to accept a new connection from a peer."""

    def admit(self, connection: Connection, request: Request) -> int | None:
        """Return the status with which to refuse a request before its body is read, or None.

        A connection with an admitted request is no longer closed to make room.
        """

    def handle(self, connection: Connection, request: Request) -> None:
        """Answer a request, now or later, with the connection's `answer`."""

    def turn(self) -> float:
        """Do pending work; return the seconds until the next turn."""


class Server(threading.Thread):
    """Serves until the process ends.

    Beyond `connections`, the oldest connection without an admitted request is closed.
    """

    def __init__(
        self,
        listener: socket.socket,
        service: Service,
        say: Callable[[str], None],
        *,
        connections: int,
    ) -> None:
        super().__init__(name=f"server-{listener.getsockname()[1]}", daemon=True)
        self.service = service
        self._listener = listener
        self._say = say
        self._selector = selectors.DefaultSelector()
        self._connections: set[Connection] = set()
        # Connections without an admitted request, the oldest first.
        self._newcomers: dict[Connection, None] = {}
        self._most = connections
        self._swept = 0.0
        # A write to this pipe ends the wait for events.
        self._woken, self._wake = os.pipe()
        for end in (self._woken, self._wake):
            os.set_blocking(end, False)
        listener.setblocking(False)
        self._selector.register(listener, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)

    def wake(self) -> None:
        """Have the service's `turn` called soon. Thread-safe."""
        # A full pipe wakes the server as well.
        with contextlib.suppress(BlockingIOError):
            os.write(self._wake, b"w")

    def run(self) -> None:
        while True:
            for key, events in self._selector.select(min(self.service.turn(), _SWEEP)):
                if key.fileobj is self._listener:
                    self._accept()
                elif key.fileobj == self._woken:
                    os.read(self._woken, 1 << 12)
                else:
                    self._attempt(key.data, events)
            self._sweep()

    def watch(self, sock: socket.socket, connection: Connection, before: int, after: int) -> None:
        """Call the connection's `ready` for these events of the socket."""
        if not before:
            self._selector.register(sock, after, connection)
        elif after:
            self._selector.modify(sock, after, connection)
        else:
            self._selector.unregister(sock)

    def know(self, connection: Connection) -> None:
        """Keep a connection from being closed to make room."""
        self._newcomers.pop(connection, None)

    def forget(self, connection: Connection) -> None:
        self._connections.discard(connection)
        self._newcomers.pop(connection, None)

    def _accept(self) -> None:
        accepted = []
        for _ in range(_ACCEPTS):
            try:
                sock, peer = self._listener.accept()
            except OSError as error:
                if error.errno in _NO_DESCRIPTORS and not self._make_room():
                    # The listener stays ready, so do not ask for its event again at once.
                    time.sleep(_NO_ROOM_TIME)
                break
            if self.service.welcome((peer[0], peer[1])):
                accepted.append(self._take(sock, (peer[0], peer[1])))
            else:
                _reset(sock)
        # Most requests have arrived by now.
        for connection in accepted:
            self._attempt(connection, selectors.EVENT_READ)

    def _take(self, sock: socket.socket, peer: Endpoint) -> Connection:
        sock.setblocking(False)
        connection = Connection(self, sock, peer)
        self._connections.add(connection)
        self._newcomers[connection] = None
        if len(self._connections) > self._most:
            self._make_room()
        return connection

    def _make_room(self) -> bool:
        oldest = next(iter(self._newcomers), None)
        if oldest:
            oldest.close()
        return oldest is not None

    def _attempt(self, connection: Connection, events: int) -> None:
        # A failing request must not end the server.
        try:
            if not connection.closed:
                connection.ready(events)
        except Exception as error:
            self._say(f"a request failed in the agent's server: {error!r}")
            connection.close()

    def _sweep(self) -> None:
        now = time.monotonic()
        if now >= self._swept + _SWEEP:
            self._swept = now
            for connection in [each for each in self._connections if each.deadline < now]:
                connection.close()


class Connection:
    """A non-blocking connection; unfinished work continues when the socket is ready."""

    def __init__(self, server: Server, sock: socket.socket, peer: Endpoint) -> None:
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
        # Clients do not send a request before the last one is answered.
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
        """Answer the request; the `last` answer closes the connection."""
        if self.closed:
            return
        self._waiting, self._last = False, last
        self.deadline = time.monotonic() + _WRITE_TIME
        self._unsent = memoryview(answer(status, body, headers or {}, last=last))
        self._write()

    def close(self) -> None:
        """Close the connection in any state."""
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
        # Closing a socket with unread data would discard the answer at the client.
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


def _reset(sock: socket.socket) -> None:
    """Reset a connection, without an answer and without TIME_WAIT."""
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def listen(endpoint: Endpoint, *, shared: bool = False) -> socket.socket:
    """Return a listening socket; a `shared` port may still be held by reserve_port.py. Raises OSError."""
    version = ipaddress.ip_address(endpoint[0]).version
    listener = socket.socket(socket.AF_INET6 if version == 6 else socket.AF_INET)
    try:
        if endpoint[1]:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # connections inherit it
        listener.bind(endpoint)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        where = f"cannot listen on {endpoint[0]}:{endpoint[1]}"
        raise OSError(error.errno, f"{where}: {error.strerror}") from None
    return listener
