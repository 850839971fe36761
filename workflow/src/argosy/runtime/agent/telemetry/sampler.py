"""Samples each source on time in a thread of its own, and writes whole lines.

Telemetry must not fail, delay or end a run: a call that hangs costs only its own source's samples.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import threading
import time
from typing import Any, Callable, Mapping, Sequence

from ..files import open_for_append
from .source import Record, Source, Unread, unread_record, why


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


INTERVAL_S = 1.0
_PATIENCE_S = 5.0  # until a source without an answer is reported
_LAST_SAMPLE_S = 0.5
_STOP_S = 1.0  # longest delay of a run's end


class Telemetry(threading.Thread):
    """Samples all sources until it is stopped; this thread reports sources that hang.

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
        self._header: dict[str, Any] = {
            **header,
            "interval_s": interval_s,
            "gpus": [],
            "driver": None,
            "unread": {},
        }
        self._note = note
        self._opened = opened
        self._interval_s = interval_s
        self._patience_s = patience_s
        self._threads = {
            source.name: threading.Thread(target=self._work, args=[source], daemon=True)
            for source in sources
        }
        # Protects all below. Names of sources: not open yet, busy since a time, and reported to hang.
        self._lock = threading.Lock()
        self._unopened = {*self._threads}
        self._busy: dict[str, float] = {}
        self._missing: set[str] = set()
        self._early: list[Record] = []
        self._is_begun = False
        self._over = threading.Event()

    def begin(self) -> None:
        """Start, unless no more threads are allowed."""
        start = time.monotonic()
        self._header.update(unix=time.time(), monotonic=start)
        self._busy = dict.fromkeys(self._threads, start)
        with contextlib.suppress(RuntimeError):
            for thread in self._threads.values():
                thread.start()
            self.start()

    def stop(self) -> None:
        """Take the last samples and end, without waiting for hanging sources."""
        self._over.set()
        if self.is_alive():
            self.join(_STOP_S)

    def run(self) -> None:
        while not self._over.wait(self._interval_s):
            self._report_hanging(self._patience_s, f"no answer for {self._patience_s:g} s")
            self._note()
        deadline = time.monotonic() + _LAST_SAMPLE_S
        for name, thread in self._threads.items():
            if name not in self._missing:
                thread.join(max(0.0, deadline - time.monotonic()))
        self._report_hanging(0.0, "no answer at the end")

    def _report_hanging(self, patience_s: float, reason: str) -> None:
        with self._lock:
            late = time.monotonic() - patience_s
            for name, since in self._busy.items():
                if since > late or name in self._missing:
                    continue
                self._missing.add(name)
                if name in self._unopened:
                    self._header["unread"][name] = reason
                    self._unopened.discard(name)
                    self._write([])
                else:
                    self._write([unread_record(name, reason)])

    # ---- in a source's thread

    def _work(self, source: Source) -> None:
        """Open a source, and sample it at each beat and at the end."""
        name, errors = source.name, Unread()
        try:
            header, records = source.open()
        except Exception as error:
            # It is not tried again.
            header, records = {"unread": {name: why(error)}}, []
        self._note()
        is_over = not self._open(name, header, records)
        while not is_over:
            elapsed = time.monotonic() - self._header["monotonic"]
            # Missed beats are skipped, so that the others stay on time.
            is_over = self._over.wait(next_beat(elapsed, self._interval_s) - elapsed)
            with self._lock:
                self._busy[name] = time.monotonic()
            try:
                records = source.sample()
            except Exception as error:
                records = errors.report(name, why(error))
            self._note()
            with self._lock:
                self._answered(name, records)

    def _open(self, name: str, header: Record, records: Sequence[Record]) -> bool:
        """Take a source's part of the header and first sample; return whether to sample it."""
        with self._lock:
            if name not in self._unopened:
                return False  # it was given up, as the written header reports
            unread = {**self._header["unread"], **header.get("unread", {})}
            self._header.update(header, unread=unread)
            self._unopened.discard(name)
            self._answered(name, records)
        return name not in unread

    def _answered(self, name: str, records: Sequence[Record]) -> None:
        del self._busy[name]
        self._missing.discard(name)
        self._write(records)

    def _write(self, records: Sequence[Record]) -> None:
        """Write lines, after the header once it is complete."""
        self._early += records
        if self._unopened:
            return
        if not self._is_begun:
            self._is_begun = True
            self._journal.begin(self._header)
            self._opened(self._header)
        self._journal.write(self._early)
        self._early = []


def next_beat(elapsed_s: float, interval_s: float) -> float:
    """Return the seconds from the start to the next beat."""
    return (math.floor(elapsed_s / interval_s) + 1) * interval_s
