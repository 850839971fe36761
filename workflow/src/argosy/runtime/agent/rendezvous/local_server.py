"""This node's rendezvous server, and the exchange of its keys with the head."""

from __future__ import annotations

import contextlib
import threading
import time
from queue import Empty, SimpleQueue
from typing import Callable

from ..coordination.server import HOLD, NEWS_PATH, PUT_PATH
from ..settings import Settings
from ..transport.client import FullError, HeadClient
from ..transport.http_codec import Request
from ..transport.http_server import Connection, Server, listen
from ..transport.open_files import most_connections
from ..transport.peers import Endpoint, Owners
from .key_values import NEWS, NEWS_REQUEST, PUT
from .store import MAX_VALUE, Rendezvous

# Seconds to collect keys before sending them, and additional seconds per node of the job.
_GATHER, _GATHER_EACH = 0.002, 0.0001
_ANSWER_TIME = 10.0
_RETRY = 0.1


class KvReplica:
    """Two threads that send keys to the head and fetch keys from it. The heartbeat detects a lost head.

    `ordered` is called when the head has new orders, `trouble` with the cause if its store is full.
    """

    def __init__(
        self,
        settings: Settings,
        rendezvous: Rendezvous,
        outbox: SimpleQueue[bytes],
        *,
        ordered: Callable[[], None],
        trouble: Callable[[str], None],
    ) -> None:
        self._settings = settings
        self._rendezvous = rendezvous
        self._outbox = outbox
        self._ordered = ordered
        self._trouble = trouble
        self._place = 0
        self._orders = 0

    def start(self) -> None:
        for work in (self._send, self._fetch):
            threading.Thread(target=work, name=work.__name__, daemon=True).start()

    def _send(self) -> None:
        client = HeadClient(self._settings)
        gather = _GATHER + _GATHER_EACH * self._settings.nodes
        while True:
            entry = self._outbox.get()
            parts, size = [PUT.pack(self._settings.node), entry], len(entry)
            time.sleep(gather)
            with contextlib.suppress(Empty):
                while size < MAX_VALUE // 2:
                    parts.append(self._outbox.get_nowait())
                    size += len(parts[-1])
            try:
                self._ask(client, PUT_PATH, b"".join(parts))
            except FullError:
                self._trouble("the rendezvous is full: the ranks have stored too much data")

    def _fetch(self) -> None:
        client = HeadClient(self._settings)
        while True:
            question = NEWS_REQUEST.pack(self._settings.node, self._place, self._orders)
            news = self._ask(client, NEWS_PATH, question)
            place, orders = NEWS.unpack_from(news)
            self._rendezvous.apply(news, NEWS.size)
            self._place = place
            if orders != self._orders:
                self._orders = orders
                self._ordered()

    def _ask(self, client: HeadClient, path: str, body: bytes) -> bytes:
        # Keys must arrive, so requests are repeated; duplicates are harmless.
        while True:
            try:
                return client.ask(path, body, HOLD + _ANSWER_TIME)
            except (OSError, ValueError):
                time.sleep(_RETRY)


ADDRESS = "127.0.0.1"
_METHODS = ("GET", "PUT", "DELETE")


class LocalService:
    """Answers processes of this user only; other users of this machine can reach the port as well."""

    def __init__(self, rendezvous: Rendezvous, address: Endpoint) -> None:
        self._rendezvous = rendezvous
        self._address = address
        self._owners = Owners()

    def welcome(self, peer: Endpoint) -> bool:
        """Accept processes of this user only."""
        return self._owners.is_ours(peer, self._address) is True

    def admit(self, connection: Connection, request: Request) -> int | None:
        """Refuse other methods, and values that are too long."""
        if request.method not in _METHODS:
            return 404
        if request.method == "PUT" and "content-length" not in request.headers:
            return 411
        return 413 if request.length > MAX_VALUE else None

    def handle(self, connection: Connection, request: Request) -> None:
        """Answer and close: Horovod sends one request per connection."""
        status, body = self._do(request)
        connection.answer(status, body, last=True)

    def turn(self) -> float:
        """Return infinity, since there is no pending work."""
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
    """Serve on a free port and return the address. Raises OSError."""
    listener = listen((ADDRESS, 0))
    host, port = listener.getsockname()
    service = LocalService(rendezvous, (host, port))
    connections = most_connections(settings, of_the_job=settings.ranks_per_node)
    Server(listener, service, say, connections=connections).start()
    return host, port
