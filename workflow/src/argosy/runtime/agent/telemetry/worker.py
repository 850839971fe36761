"""Samples are taken in threads of their own, so that a call that hangs holds up nobody else."""

from __future__ import annotations

import queue
import threading
import time
from dataclasses import dataclass
from typing import Callable, Sequence

from .reading import why
from .source import Opened, Record, Source, unread_record


@dataclass(frozen=True)
class Answer:
    """What a worker was asked for; its first answer has `opened`, too."""

    worker: Worker
    records: Sequence[Record]
    opened: Opened | None = None


class Worker(threading.Thread):
    """Samples one source.

    Args:
        source: used by this thread alone.
        answer: takes what was asked for, in this thread.
        note: called in this thread after each piece of work.
    """

    def __init__(
        self, source: Source, answer: Callable[[Answer], None], note: Callable[[], None]
    ) -> None:
        super().__init__(name=f"telemetry-{source.name}", daemon=True)
        self.source = source
        self.asked_at: float | None = None
        """Since when an answer is awaited (monotonic); None when none is."""
        self._answer = answer
        self._note = note
        self._asked: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._said: set[str] = set()

    def ask(self) -> None:
        """Ask for a sample, unless the last one is still awaited. Never waits."""
        if self.asked_at is None:
            self.asked_at = time.monotonic()
            self._asked.put(None)

    def run(self) -> None:
        """Run the thread."""
        self._asked.get()
        opened = self._open()
        self._give(Answer(self, opened.records, opened))
        # What cannot be begun is not tried again; it has been named.
        while self.source.name not in opened.unread:
            self._asked.get()
            self._give(Answer(self, self._sample()))

    def _give(self, answer: Answer) -> None:
        self._note()
        self._answer(answer)

    def _open(self) -> Opened:
        try:
            return self.source.open()
        except Exception as error:
            return Opened(unread={self.source.name: why(error)})

    def _sample(self) -> Sequence[Record]:
        try:
            return self.source.sample()
        except Exception as error:
            reason = why(error)
            if reason in self._said:
                return []
            self._said.add(reason)
            return [unread_record(self.source.name, reason)]
