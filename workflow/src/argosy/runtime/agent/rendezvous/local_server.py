"""The rendezvous of this node's own ranks, at an address that only this machine can reach."""

from __future__ import annotations

from typing import Callable

from ..settings import Settings
from ..transport.connection import Connection
from ..transport.http_codec import Request
from ..transport.http_server import Server, listen
from ..transport.open_files import most_connections
from ..transport.peers import Endpoint, Owners
from .store import MAX_VALUE, Rendezvous

ADDRESS = "127.0.0.1"
_METHODS = ("GET", "PUT", "DELETE")


class LocalService:
    """Answers processes of our own user; others of this machine reach the port as well as we do."""

    def __init__(self, rendezvous: Rendezvous, address: Endpoint) -> None:
        self._rendezvous = rendezvous
        self._address = address
        self._owners = Owners()

    def welcome(self, peer: Endpoint) -> bool:
        """Refuse all but processes of our own user."""
        return self._owners.is_ours(peer, self._address)

    def admit(self, connection: Connection, request: Request) -> int | None:
        """Refuse what is no request to a rendezvous."""
        if request.method not in _METHODS:
            return 404
        if request.method == "PUT" and "content-length" not in request.headers:
            return 411
        return 413 if request.length > MAX_VALUE else None

    def handle(self, connection: Connection, request: Request) -> None:
        """Answer. Horovod asks once in a connection."""
        status, body = self._do(request)
        connection.answer(status, body, last=True)

    def turn(self) -> float:
        """Return False: nothing is ever due."""
        return float("inf")

    def _do(self, request: Request) -> tuple[int, bytes]:
        try:
            if request.method == "GET":
                value = self._rendezvous.get(request.path)
                return (404, b"") if value is None else (200, value)
            if request.method == "PUT":
                self._rendezvous.put(request.path, request.body)
            else:
                self._rendezvous.delete(request.path)
        except ValueError:
            return 400, b""
        except MemoryError:
            return 413, b""
        return 200, b""


def serve_ranks(settings: Settings, rendezvous: Rendezvous, say: Callable[[str], None]) -> Endpoint:
    """Serve at a port that the kernel chooses; returns the address. Raises OSError."""
    listener = listen((ADDRESS, 0))
    host, port = listener.getsockname()
    service = LocalService(rendezvous, (host, port))
    connections = most_connections(settings, of_the_job=settings.ranks_per_node)
    Server(listener, service, say, connections=connections).start()
    return host, port
