"""Samples all sources on time, each in its own thread, and writes whole lines.

Telemetry must not fail, delay or end a run. The sampler's thread only waits, with timeouts, and writes;
a call that hangs costs only its own source's samples.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import queue
import threading
import time
from dataclasses import dataclass
from typing import Any, Callable, Mapping, Sequence

from ..files import open_for_append
from .source import Opened, Record, Source, Unread, unread_record, why


class TelemetryWriter:
    """Writes each sample with one call. Samples that cannot be written are dropped and reported later.

    The header comes first even if its first write failed.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor: int | None = None
        self._size = 0
        self._header: Sequence[Record] = ()
        self._lost = 0
        self._reason = ""

    def begin(self, header: Mapping[str, Any]) -> None:
        """Set the header."""
        self._header = [header]

    def write(self, records: Sequence[Record]) -> None:
        """Append the lines of one sample, or drop them on an error."""
        lines = [*self._header, *self._loss(), *records]
        if not lines:
            return
        try:
            self._append(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
        except OSError as error:
            self._lost += 1
            self._reason = why(error)
        else:
            self._header = ()
            self._lost = 0

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _loss(self) -> list[Record]:
        if not self._lost:
            return []
        return [unread_record("samples", f"{self._lost} not written: {self._reason}")]

    def _append(self, data: bytes) -> None:
        if self._descriptor is None:
            self._descriptor = open_for_append(self._path)
            self._size = os.fstat(self._descriptor).st_size
        written = os.write(self._descriptor, data)
        if written < len(data):
            # A partial line would damage the next one.
            os.ftruncate(self._descriptor, self._size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._size += written


@dataclass(frozen=True)
class Answer:
    """A worker's sample; its first answer also has `opened`."""

    worker: Worker
    records: Sequence[Record]
    opened: Opened | None = None


class Worker(threading.Thread):
    """Thread that samples one source.

    Args:
        source: used by this thread only.
        answer: called in this thread with each sample.
        note: called in this thread after each sample.
    """

    def __init__(
        self, source: Source, answer: Callable[[Answer], None], note: Callable[[], None]
    ) -> None:
        super().__init__(name=f"telemetry-{source.name}", daemon=True)
        self.source = source
        self.asked_at: float | None = None
        """Monotonic time of the open request; None: there is none."""
        self._answer = answer
        self._note = note
        self._asked: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._errors = Unread()

    def ask(self) -> None:
        """Request a sample, unless a request is open. Does not block."""
        if self.asked_at is None:
            self.asked_at = time.monotonic()
            self._asked.put(None)

    def run(self) -> None:
        self._asked.get()
        opened = self._open()
        self._give(Answer(self, opened.records, opened))
        # A source that cannot be opened is reported and not tried again.
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
            return self._errors.report(self.source.name, why(error))


INTERVAL_S = 1.0
_PATIENCE_S = 5.0  # until a source without an answer is reported
_LAST_SAMPLE_S = 0.5
_STOP_S = 1.0  # longest delay of a run's end


class Telemetry(threading.Thread):
    """Thread that samples all sources until it is stopped.

    Args:
        journal: the writer of lines.
        header: the first line, to which the sources add their part.
        sources: the sources, each sampled in its own thread.
        note: called in each thread after each piece of work.
        opened: called with the first line once all sources are open.
        interval_s: seconds between samples.
        patience_s: seconds until an answer is reported missing.
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
        """Start, unless no more threads are allowed."""
        with contextlib.suppress(RuntimeError):
            for worker in self._workers:
                worker.start()
            self.start()

    def stop(self) -> None:
        """Take the last sample and end, without waiting for hanging sources."""
        self._answers.put(None)
        if self.is_alive():
            self.join(_STOP_S)

    def run(self) -> None:
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
            # Missed beats are skipped, so that the others stay on time.
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
        """Return the workers with an open request that are not reported missing."""
        return [
            worker
            for worker in self._workers
            if worker.asked_at is not None and worker not in self._missing
        ]

    def _listen(self, until: float, *, ending: bool = False) -> None:
        """Write answers until a monotonic time; when `ending`, until no request is open."""
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
                # The worker was given up, as the written header reports.
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
        """Write lines, after the header once it is complete."""
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
    """Return the seconds from the start to the next beat."""
    return (math.floor(elapsed_s / interval_s) + 1) * interval_s
