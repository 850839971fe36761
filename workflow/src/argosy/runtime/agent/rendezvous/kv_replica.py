"""Keeps this node's rendezvous and the head's list alike: our keys go up, all keys come down."""

from __future__ import annotations

import threading
import time
from typing import Callable

from ..coordination.server import HOLD, NEWS_PATH, PUT_PATH
from ..settings import Settings
from ..transport.client import FullError, HeadClient
from .kv_codec import NEWS, NEWS_REQUEST, PUT
from .store import MAX_VALUE, Outbox, Rendezvous

# Seconds in which keys are gathered before they go up, and for each node of the job.
_GATHER, _GATHER_EACH = 0.002, 0.0001
_ANSWER_TIME = 10.0
_RETRY = 0.1


class KvReplica:
    """Two threads, one for each way. A head that is lost is for the heartbeat to notice.

    Args:
        settings: where the head is.
        rendezvous: this node's own.
        outbox: what goes up.
        ordered: called when the head has new orders.
        trouble: called with the cause when the head cannot take our keys.
    """

    def __init__(
        self,
        settings: Settings,
        rendezvous: Rendezvous,
        outbox: Outbox,
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
        """Go on until the process ends."""
        for way in (self._send, self._fetch):
            threading.Thread(target=way, name=way.__name__, daemon=True).start()

    def _send(self) -> None:
        client = HeadClient(self._settings)
        gather = _GATHER + _GATHER_EACH * self._settings.nodes
        while True:
            self._outbox.filled.wait()
            time.sleep(gather)
            message = PUT.pack(self._settings.node) + self._outbox.take(MAX_VALUE // 2)
            try:
                self._ask(client, PUT_PATH, message)
            except FullError:
                self._trouble("the rendezvous is full: the ranks have put too many or long values")

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
        # What was put must arrive, so it is sent until it has; twice is no harm.
        while True:
            try:
                return client.ask(path, body, HOLD + _ANSWER_TIME)
            except (OSError, ValueError):
                time.sleep(_RETRY)
