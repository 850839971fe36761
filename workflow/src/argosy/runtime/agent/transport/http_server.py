"""One thread that serves any number of connections; an idle one costs a descriptor, no more."""

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
from typing import Callable

from .connection import Connection, Service
from .peers import Endpoint

_BACKLOG = 4096
_ACCEPTS = 64  # in one turn, so that nobody who is connected waits for those who are not
_SWEEP = 1.0  # seconds
_NO_ROOM_TIME = 0.02  # seconds
_NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Server(threading.Thread):
    """Serves until the process ends.

    Args:
        listener: where clients connect.
        service: does the work.
        say: prints a line for the user.
        connections: how many there may be; beyond them those are closed that no request was admitted from.
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
        # Those of which no request was admitted yet, the oldest first.
        self._newcomers: dict[Connection, None] = {}
        self._most = connections
        self._listen_again: float | None = None
        self._swept = 0.0
        # Written to, this pipe ends the wait for the next event.
        self._woken, self._wake = os.pipe()
        for end in (self._woken, self._wake):
            os.set_blocking(end, False)
        listener.setblocking(False)
        self._selector.register(listener, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)

    def wake(self) -> None:
        """Have the service's `turn` called soon; from any thread."""
        # When the pipe is full, such wishes are on their way already.
        with contextlib.suppress(BlockingIOError):
            os.write(self._wake, b"w")

    def run(self) -> None:
        """Run the thread."""
        while True:
            patience = min(self.service.turn(), _SWEEP, self._until_listening())
            for key, events in self._selector.select(patience):
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
        """Note that the connection is no stranger's: it is not closed to make room."""
        self._newcomers.pop(connection, None)

    def forget(self, connection: Connection) -> None:
        """Forget a connection that is closed."""
        self._connections.discard(connection)
        self._newcomers.pop(connection, None)

    def _accept(self) -> None:
        accepted = []
        for _ in range(_ACCEPTS):
            try:
                sock, peer = self._listener.accept()
            except OSError as error:
                if error.errno in _NO_DESCRIPTORS and not self._make_room():
                    self._pause(_NO_ROOM_TIME)
                break
            if self.service.welcome((peer[0], peer[1])):
                accepted.append(self._take(sock, (peer[0], peer[1])))
            else:
                _reset(sock)
        # By now most requests are there.
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

    def _pause(self, seconds: float) -> None:
        # The listener stays ready meanwhile, so the selector is not to ask it.
        if self._listen_again is None:
            self._selector.unregister(self._listener)
        self._listen_again = time.monotonic() + seconds

    def _until_listening(self) -> float:
        if self._listen_again is None:
            return _SWEEP
        left = self._listen_again - time.monotonic()
        if left > 0:
            return left
        self._listen_again = None
        self._selector.register(self._listener, selectors.EVENT_READ)
        return 0.0

    def _attempt(self, connection: Connection, events: int) -> None:
        # One request that fails must not take the server away from all others.
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


def _reset(sock: socket.socket) -> None:
    """Close a connection without a word, and without the minute for which the kernel remembers it."""
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
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # of its connections too
        listener.bind(endpoint)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        where = f"cannot listen on {endpoint[0]}:{endpoint[1]}"
        raise OSError(error.errno, f"{where}: {error.strerror}") from None
    return listener
