"""Other numbers that ranks print: `metrics` of run.json, which become metrics of the run."""

from __future__ import annotations

import json
import math
import time
from typing import Iterable, Iterator, Pattern

from .printed_numbers import LONGEST_LINE, NoNumberError, number_of, refused, unsearched
from .searched_text import needed_text, texts_with

MOST_VALUES = 10_000
"""Values of one metric and rank that are written as they come; of later ones the last one is."""
_MOST_UNREAD = 1000


class PrintedMetric:
    """Looks for the pattern of one metric in a rank's lines."""

    def __init__(self, name: str, pattern: Pattern[str]) -> None:
        self.name = name
        self.matches = self.values = 0
        self._pattern = pattern
        self._needed = needed_text(pattern)
        self._clock = time.time() - time.monotonic()
        self._unread = 0
        self._last = ""

    def search(self, lines: list[bytes]) -> Iterator[str]:
        """Yield what printed.jsonl has to hold of lines that came together (docs/run-folder.md)."""
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
        """Return the last value, unless it was written when it came."""
        return [self._last] if self.values > MOST_VALUES else []

    def _record(self, value: float) -> str:
        # As argosy_steps writes one.
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
    """Return how many lines, matches and values each metric has, of ranks with so many lines."""
    found: dict[str, dict[str, int]] = {}
    for lines, metrics in searched:
        for metric in metrics:
            one = found.setdefault(metric.name, {"lines": 0, "matches": 0, "values": 0})
            one["lines"] += lines
            one["matches"] += metric.matches
            one["values"] += metric.values
    return found
