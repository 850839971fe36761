"""Metrics that ranks print, by the patterns in `metrics` of run.json."""

from __future__ import annotations

import json
import math
import time
from typing import Iterable, Iterator, Pattern

from .printed_numbers import LONGEST_LINE, NoNumberError, number_of, refused, unsearched
from .searched_text import needed_text, texts_with

MOST_VALUES = 10_000
"""Most values of one metric and rank that are all recorded; of later ones only the last is."""
_MOST_UNREAD = 1000


class PrintedMetric:
    """Searches a rank's output for the pattern of one metric."""

    def __init__(self, name: str, pattern: Pattern[str]) -> None:
        self.name = name
        self.matches = self.values = 0
        self._pattern = pattern
        self._needed = needed_text(pattern)
        self._clock = time.time() - time.monotonic()
        self._unread = 0
        self._last = ""

    def search(self, lines: list[bytes]) -> Iterator[str]:
        """Yield the records of printed.jsonl for a batch of lines (docs/run-folder.md)."""
        for text in texts_with(self._needed, lines):
            if len(text) > LONGEST_LINE:
                yield from self._unreadable(unsearched(len(text), time.monotonic()))
                continue
            for match in self._pattern.finditer(text):
                self.matches += 1
                try:
                    value = number_of(match, percent=True)
                except NoNumberError:
                    record = refused(match, time.monotonic(), name=self.name)
                    yield from self._unreadable(record)
                    continue
                self.values += 1
                self._last = self._record(value)
                if self.values <= MOST_VALUES:
                    yield self._last

    def last(self) -> list[str]:
        """Return the record of the last value, unless it has been written."""
        return [self._last] if self.values > MOST_VALUES else []

    def _record(self, value: float) -> str:
        # The format of argosy_steps.
        number = value if math.isfinite(value) else str(value)
        record = {"kind": "metric", "name": self.name, "value": number, "at": time.monotonic()}
        return json.dumps({**record, "clock": self._clock}) + "\n"

    def _unreadable(self, record: str) -> Iterator[str]:
        self._unread += 1
        if self._unread <= _MOST_UNREAD:
            yield record


def counts(
    searched: Iterable[tuple[int, Iterable[PrintedMetric]]],
) -> dict[str, dict[str, int]]:
    """Add up the lines, matches and values of each metric over ranks: pairs of line count and metrics."""
    found: dict[str, dict[str, int]] = {}
    for lines, metrics in searched:
        for metric in metrics:
            one = found.setdefault(metric.name, {"lines": 0, "matches": 0, "values": 0})
            one["lines"] += lines
            one["matches"] += metric.matches
            one["values"] += metric.values
    return found
