"""The head's server: reports of agents, and the ranks' key-value store."""

from __future__ import annotations

import struct
import time
from collections import deque
from dataclasses import dataclass
from typing import Callable

from ..rendezvous.key_values import NEWS, NEWS_REQUEST, PUT
from ..rendezvous.store import KvLog
from ..settings import Settings
from ..transport.http_codec import MAX_BODY, Request
from ..transport.http_server import Connection, Server, listen
from ..transport.messages import Report
from ..transport.open_files import CONNECTIONS, most_connections
from ..transport.peers import Endpoint, Owners, plain_address
from ..transport.signing import NONCE_HEADER, Once, Signer, digest_of
from .coordinator import Coordinator

BEAT_PATH = "/argosy/beat"
PUT_PATH = "/argosy/put"
NEWS_PATH = "/argosy/news"
HOLD = 1.0
"""Seconds for which the head holds a long poll without news."""
# Seconds to collect news before answering, and seconds per node between rounds of answers: a thousand
# answers take a third of a second.
_GATHER, _REST = 0.002, 0.0003
_ANSWERS = 64  # cached answers
_MAX_WARNINGS = 20  # about strangers, each of which may have many addresses


@dataclass(frozen=True)
class _Question:
    """An open long poll for news."""

    connection: Connection
    nonce: str
    place: int
    orders: int
    deadline: float


class HeadService:
    """Answers the job's agents only. Runs in the server's thread, except `ordered`."""

    def __init__(
        self, settings: Settings, coordinator: Coordinator, say: Callable[[str], None]
    ) -> None:
        self._coordinator = coordinator
        self._say = say
        self._signer = Signer(settings.token)
        self._once = Once()
        self._board = KvLog()
        # In order of their deadlines, since all are held for the same time.
        self._questions: deque[_Question] = deque()
        self._owners = Owners()
        self._address = (settings.head_address, settings.head_port)
        self._warnings: set[str] = set()
        self._rest = settings.nodes * _REST
        self._orders = 0
        self._noticed = (0, 0)
        self._last_telling = 0.0
        self._next_telling: float | None = None
        # Cached answers by place, with their digest, until there is more news.
        self._answers: dict[int, tuple[bytes, str]] = {}
        self._answers_of = (0, 0)
        self._work: dict[str, Callable[[Connection, Request], None]] = {
            BEAT_PATH: self._beat,
            PUT_PATH: self._put,
            NEWS_PATH: self._news,
        }

    def ordered(self) -> None:
        """Answer the agents' long polls, since there are new orders. Thread-safe."""
        self._orders += 1

    def welcome(self, peer: Endpoint) -> bool:
        """Refuse other users of this machine; peers on other machines are checked by their signature."""
        if self._owners.is_ours(peer, self._address) is not False:
            return True
        self._warn("refused connections of another user of this machine")
        return False

    def admit(self, connection: Connection, request: Request) -> int | None:
        """Check the signature first, then method, path and length."""
        nonce = request.headers.get(NONCE_HEADER, "")
        if not self._signer.signed(request) or not self._once.admits(nonce):
            address = plain_address(connection.peer[0])
            self._warn(f"refused a request from {address}: not signed with the job's token")
            return 403
        if request.method != "POST" or request.path not in self._work:
            return 404
        return 413 if request.length > MAX_BODY else None

    def handle(self, connection: Connection, request: Request) -> None:
        """Answer a request, or hold a long poll until there is news."""
        if not self._signer.whole(request):
            connection.answer(403, last=True)
            return
        try:
            self._work[request.path](connection, request)
        except (ValueError, struct.error):
            self._answer(connection, request.headers[NONCE_HEADER], 400)
        except MemoryError:
            self._answer(connection, request.headers[NONCE_HEADER], 413)

    def turn(self) -> float:
        """Answer long polls with news; return the seconds until the next turn."""
        now = time.monotonic()
        state = (self._board.end, self._orders)
        if state != self._noticed:
            self._noticed = state
            if self._next_telling is None:
                # Without a pause, each of many keys would cost an answer to each of many nodes.
                self._next_telling = max(now + _GATHER, self._last_telling + self._rest)
        if self._next_telling is not None and self._next_telling <= now:
            self._next_telling, self._last_telling = None, now
            asked, self._questions = self._questions, deque()
            for question in asked:
                if self._is_news(question):
                    self._tell(question)
                else:
                    self._questions.append(question)
        while self._questions and self._questions[0].deadline <= now:
            self._tell(self._questions.popleft())
        deadline = self._questions[0].deadline if self._questions else now + HOLD
        return max(0.0, min(deadline, self._next_telling or deadline) - now)

    def _beat(self, connection: Connection, request: Request) -> None:
        order = self._coordinator.beat(Report.decode(request.body))
        self._answer(connection, request.headers[NONCE_HEADER], 200, order.encode())

    def _put(self, connection: Connection, request: Request) -> None:
        self._board.put(request.body, PUT.size)
        self._answer(connection, request.headers[NONCE_HEADER], 200)

    def _news(self, connection: Connection, request: Request) -> None:
        _node, place, orders = NEWS_REQUEST.unpack(request.body)
        deadline = time.monotonic() + HOLD
        nonce = request.headers[NONCE_HEADER]
        question = _Question(connection, nonce, place, orders, deadline)
        # A node that is behind gets an answer at once, unless more news is being collected.
        if self._is_news(question) and self._next_telling is None:
            self._tell(question)
        else:
            self._questions.append(question)

    def _is_news(self, question: _Question) -> bool:
        return question.place < self._board.end or question.orders != self._orders

    def _tell(self, question: _Question) -> None:
        # Most agents have read up to the same place, so most answers are equal.
        if (self._board.end, self._orders) != self._answers_of:
            self._answers_of = (self._board.end, self._orders)
            self._answers.clear()
        if question.place not in self._answers:
            if len(self._answers) >= _ANSWERS:
                del self._answers[next(iter(self._answers))]
            entries, place = self._board.since(question.place)
            body = NEWS.pack(place, self._orders) + entries
            self._answers[question.place] = body, digest_of(body)
        body, digest = self._answers[question.place]
        headers = self._signer.answer_headers(question.nonce, 200, digest)
        question.connection.answer(200, body, headers)

    def _answer(self, connection: Connection, nonce: str, status: int, body: bytes = b"") -> None:
        headers = self._signer.answer_headers(nonce, status, digest_of(body))
        connection.answer(status, body, headers)

    def _warn(self, line: str) -> None:
        if line not in self._warnings and len(self._warnings) < _MAX_WARNINGS:
            self._warnings.add(line)
            self._say(line)


def serve_head(
    settings: Settings, coordinator: Coordinator, say: Callable[[str], None]
) -> Callable[[], None]:
    """Serve on the head's address and port. Raises OSError.

    Returns a thread-safe callback for new orders.
    """
    service = HeadService(settings, coordinator, say)
    listener = listen((settings.head_address, settings.head_port), shared=True)
    connections = most_connections(settings, of_the_job=CONNECTIONS * settings.nodes)
    server = Server(listener, service, say, connections=connections)
    server.start()

    def ordered() -> None:
        service.ordered()
        server.wake()

    return ordered
