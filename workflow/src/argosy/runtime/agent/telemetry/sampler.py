"""The beat: asks for samples on time, and writes what comes.

Nothing here may fail, delay or end a run. This thread only waits, with limits, and writes.
"""

from __future__ import annotations

import contextlib
import math
import queue
import threading
import time
from typing import Any, Callable, Mapping, Sequence

from .source import Record, Source, unread_record
from .worker import Answer, Worker
from .writer import TelemetryWriter

INTERVAL_S = 1.0
_PATIENCE_S = 5.0  # Then a source that gives no answer is named, and no longer waited for.
_LAST_SAMPLE_S = 0.5
_STOP_S = 1.0  # The longest that a run's end waits for all this.


class Telemetry(threading.Thread):
    """Samples until it is stopped.

    Args:
        journal: where the lines go.
        header: who this is; the rest of the first line comes from the sources.
        sources: what is sampled, each in a thread of its own.
        note: called in each thread that takes part, after each piece of work.
        opened: called with the first line once all sources have said what they are.
        interval_s: from one sample to the next.
        patience_s: how long an answer may take before it is said to be missing.
    """

    def __init__(
        self,
        journal: TelemetryWriter,
        header: Mapping[str, Any],
        sources: Sequence[Source],
        note: Callable[[], None],
        opened: Callable[[Mapping[str, Any]], None] = lambda header: None,
        *,
        interval_s: float = INTERVAL_S,
        patience_s: float = _PATIENCE_S,
    ) -> None:
        super().__init__(name="telemetry", daemon=True)
        self._journal = journal
        self._header = {**header, "interval_s": interval_s, "gpus": [], "driver": None}
        self._unread: dict[str, str] = {}
        self._note = note
        self._opened = opened
        self._interval_s = interval_s
        self._patience_s = patience_s
        self._answers: queue.Queue[Answer | None] = queue.Queue()
        self._workers = [Worker(source, self._answers.put, note) for source in sources]
        self._unopened = {*self._workers}
        self._missing: set[Worker] = set()
        self._early: list[Record] = []
        self._stopping = False

    def begin(self) -> None:
        """Start, or do nothing where no more threads can be had."""
        with contextlib.suppress(RuntimeError):
            for worker in self._workers:
                worker.start()
            self.start()

    def stop(self) -> None:
        """Take the last sample and end; what hangs is left behind."""
        self._answers.put(None)
        if self.is_alive():
            self.join(_STOP_S)

    def run(self) -> None:
        """Run the thread."""
        try:
            self._sample()
        except Exception as error:
            self._journal.write([unread_record("telemetry", repr(error))])
        self._journal.close()

    def _sample(self) -> None:
        start = time.monotonic()
        self._header.update(unix=time.time(), monotonic=start)
        while not self._stopping:
            self._ask()
            now = time.monotonic()
            # Beats that were missed are left out, so that the others stay on time.
            self._listen(start + next_beat(now - start, self._interval_s))
        self._ask()
        self._listen(time.monotonic() + _LAST_SAMPLE_S, ending=True)
        for worker in self._awaited():
            self._miss(worker, "no answer at the end")
        self._note()

    # ---- the workers

    def _ask(self) -> None:
        now = time.monotonic()
        for worker in self._awaited():
            if worker.asked_at is not None and now - worker.asked_at > self._patience_s:
                self._miss(worker, f"no answer for {self._patience_s:g} s")
        for worker in self._workers:
            worker.ask()
        self._note()

    def _awaited(self) -> list[Worker]:
        """Return those who owe an answer and may still be hoped for."""
        return [
            worker
            for worker in self._workers
            if worker.asked_at is not None and worker not in self._missing
        ]

    def _listen(self, until: float, *, ending: bool = False) -> None:
        """Write answers as they come, until that time, or when `ending` until there are no more."""
        while self._awaited() if ending else not self._stopping:
            try:
                answer = self._answers.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                return
            if answer is None:
                self._stopping = True
            else:
                self._take(answer)

    def _take(self, answer: Answer) -> None:
        worker = answer.worker
        if answer.opened:
            if worker not in self._unopened:
                # It was given up, and said so, in a header that is already written.
                self._workers.remove(worker)
                return
            self._header.update(answer.opened.header)
            self._unread.update(answer.opened.unread)
            self._unopened.discard(worker)
            if worker.source.name in answer.opened.unread:
                self._workers.remove(worker)
        worker.asked_at = None
        self._missing.discard(worker)
        self._write(answer.records)

    def _miss(self, worker: Worker, reason: str) -> None:
        self._missing.add(worker)
        if worker in self._unopened:
            self._unopened.discard(worker)
            self._unread[worker.source.name] = reason
            self._write([])
        else:
            self._write([unread_record(worker.source.name, reason)])

    # ---- the file

    def _write(self, records: Sequence[Record]) -> None:
        """Write the lines; those that come before the first one is known wait for it."""
        self._early += records
        if self._unopened:
            return
        if "unread" not in self._header:
            self._header["unread"] = self._unread
            self._journal.begin(self._header)
            self._opened(self._header)
        self._journal.write(self._early)
        self._early = []


def next_beat(elapsed_s: float, interval_s: float) -> float:
    """Return seconds from the start to the first beat that is still to come."""
    return (math.floor(elapsed_s / interval_s) + 1) * interval_s
