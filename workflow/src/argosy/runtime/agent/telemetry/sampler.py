"""Samples are taken on time, each source in a thread of its own, and written as whole lines.

Nothing here may fail, delay or end a run. The sampler's thread only waits, with limits, and writes; a call
that hangs costs the samples of its own source.
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
from .source import Opened, Record, Source, unread_record, why


class TelemetryWriter:
    """Writes each sample by one call. What cannot be written is left out, and later said to be.

    The header comes first even when it could not be written at once.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor: int | None = None
        self._size = 0
        self._header: Sequence[Record] = ()
        self._lost = 0
        self._reason = ""

    def begin(self, header: Mapping[str, Any]) -> None:
        """Put this first."""
        self._header = [header]

    def write(self, records: Sequence[Record]) -> None:
        """Add the lines of one sample, if that is possible now."""
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
        """Close the file: nothing more comes."""
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
            # Half a line would spoil the next one.
            os.ftruncate(self._descriptor, self._size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._size += written


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
