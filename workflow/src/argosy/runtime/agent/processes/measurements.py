"""Measurements of a run: throughput that ranks print, or steps that they record."""

from __future__ import annotations

import json
import math
import os
import re
import time
from typing import Match, Sequence

from ...contract import layout
from ...contract.attempt import Attempt
from ...contract.files import open_regular, read_log, write_all
from ...contract.steps import NoStepsError, read_steps
from ...contract.throughput import ALL, FIRST, LAST, TIMES, Throughput
from ..coordination.failure import Failure
from ..files import open_for_append, write_cause
from ..settings import Settings
from .number_kinds import NumberKinds
from .output import Trouble
from .printed_metrics import PrintedMetric
from .printed_numbers import (
    LONGEST_LINE,
    NoNumberError,
    number_of,
    rate_of,
    record,
    refused,
    unsearched,
)
from .searched_text import needed_text, shown, texts_with

_MOST_LISTED = 1000
"""Most unreadable matches, and most unsearched lines, that are recorded; all are counted."""
_LONGEST_SHOWN = 100
_MOST_OTHERS = 32
"""Most ranks whose logs are searched after a run without a match."""
_DIGIT = re.compile(rb"[0-9]")

_NO_STEPS = (
    "the program ended well but recorded no steps: use argosy_steps in it, "
    "or give the experiment a 'throughput' pattern"
)
_NO_MATCH = (
    "the program ended well, but the experiment's 'throughput' {pattern} matched none of the "
    "{lines} lines of rank {rank}{unsearched}{other}{last}; see {log}"
)
_OTHER_RANK = ", but lines of rank {rank}: write throughput: {{{key}: …, rank: {word}}}"
_NOTHING_DONE = (
    "the program ended well, but all {numbers} numbers that the experiment's 'throughput' "
    "{pattern} found are 0; see {log}"
)
_NO_NUMBER = (
    "the program ended well, but {count} of the {matches} matches of the experiment's 'throughput' "
    "{pattern} had no readable number, so the run has no throughput. Not a number: "
    "{found}; put the whole number, and nothing else, into its group"
)
_CUT = (
    "the experiment's 'throughput' {pattern} captures {found}: only a part of the number, so the "
    "throughput is wrong ({count} of {matches} matches); put the whole number into its group, with its "
    "sign, thousands, exponent, and k, M or G"
)
_TWO_KINDS = (
    "the experiment's 'throughput' {pattern} finds two kinds of numbers, so the run has no "
    "throughput: {one} and {other}; include words that only one kind has"
)


class PrintedThroughput:
    """Searches a rank's output for the throughput pattern and `metrics`, and writes printed.jsonl."""

    def __init__(self, settings: Settings, rank: int, trouble: Trouble) -> None:
        self._rank = rank
        self._printed = settings.printed or Throughput("")
        self._share = self._printed.share(settings.nodes, settings.ranks)
        self._pattern = settings.throughput
        self._needed = needed_text(self._pattern) if self._pattern else b""
        self._path = settings.record(layout.printed(rank))
        self._trouble = trouble
        self._file: int | None = None
        self._settings = settings
        self.metrics = [PrintedMetric(*each) for each in settings.metrics.items()]
        self.lines = self._long_lines = self._matches = self._refused = self._zeros = 0
        self._no_number: NoNumberError | None = None
        self._last = b""
        """The last line with a number before the first match."""
        self._kinds = NumberKinds()

    def search(self, lines: list[bytes]) -> None:
        """Record each match in a batch of lines."""
        if not lines or not (self._pattern or self.metrics):
            return
        self.lines += sum(map(bool, map(bytes.strip, lines)))
        if not self._matches:
            self._last = next(filter(_has_number, reversed(lines)), self._last)
        records: list[str] = []
        if self._pattern:
            for text in texts_with(self._needed, lines):
                records += self._search_in(text)
        for metric in self.metrics:
            records += metric.search(lines)
        self._write(records)

    def end(self) -> None:
        """Record the last value of each metric with too many values."""
        self._write([record for metric in self.metrics for record in metric.last()])

    def failure(self) -> Failure | None:
        """Return the failure of a completed rank whose measurement is missing or wrong."""
        has_steps = _holds_steps(self._settings.record(layout.rank_steps(self._rank)))
        cause = "" if has_steps else self._unread() or self._mixed() or self._nothing()
        return Failure(self._settings.node, None, cause, time.time()) if cause else None

    def _search_in(self, line: str) -> list[str]:
        assert self._pattern
        if len(line) > LONGEST_LINE:
            self._long_lines += 1
            is_listed = self._long_lines <= _MOST_LISTED
            return [unsearched(len(line), time.monotonic())] if is_listed else []
        if not self._pattern.search(line):
            return []
        records, rates = [], []
        for match in self._pattern.finditer(line):
            self._matches += 1
            at = time.monotonic()
            try:
                rate = self._rate(match)
            except NoNumberError as problem:
                if self._is_listed(problem):
                    records.append(refused(match, at))
                continue
            self._zeros += rate == 0
            rates.append((match, rate))
            records.append(record(rate * self._share, at))
        if rates:
            self._kinds.note(rates)
        return records

    def _rate(self, match: Match[str]) -> float:
        """Return the rate of a rank, a node or the job that a match contains. Raises NoNumberError."""
        number, named = rate_of(match), match.groupdict()
        times = number_of(match, match.re.groupindex[TIMES]) if named.get(TIMES) else 1.0
        try:
            rate = self._printed.per_second(number, named, times)
        except ZeroDivisionError:
            raise NoNumberError("0, which is a time") from None
        if not 0 <= rate < math.inf:
            raise NoNumberError(f"{number:g}, which gives no rate with the factor {times:g}")
        return rate

    def _is_listed(self, problem: NoNumberError) -> bool:
        """Count an unreadable match and return whether to record it."""
        self._refused += 1
        if self._no_number is None or (problem.cut and not self._no_number.cut):
            self._no_number = problem
        return self._refused <= _MOST_LISTED

    def _unread(self) -> str:
        found = self._no_number
        if found is None:
            return ""
        sentence = _CUT if found.cut else _NO_NUMBER
        return self._say(sentence, found=found, count=self._refused, matches=self._matches)

    def _mixed(self) -> str:
        # Other named formats match one kind of number.
        is_clear = self._printed.format not in (None, "tqdm")
        groups = [] if is_clear else self._kinds.groups()
        return self._say(_TWO_KINDS, one=groups[0], other=groups[1]) if groups else ""

    def _nothing(self) -> str:
        settings, rank = self._settings, self._rank
        measured = _holds(settings.record(layout.rank_lines(rank)), "collective") or _before(
            settings, rank
        )
        if self._zeros < self._matches or measured:
            return ""
        if settings.throughput is None:
            return _NO_STEPS
        log = f"logs/{settings.attempt}/ranks/{layout.rank_log(rank)}"
        if self._matches:
            return self._say(_NOTHING_DONE, numbers=self._matches, log=log)
        unsearched = f" ({self._long_lines} of them, over 4 KiB, were not searched)"
        unsearched = unsearched if self._long_lines else ""
        last = f"; the last one with a number is {self._last_line()!r}" if self._last else ""
        words = {"lines": self.lines, "rank": rank, "last": last, "log": log}
        return self._say(_NO_MATCH, unsearched=unsearched, other=self._other_rank(), **words)

    def _other_rank(self) -> str:
        """Name another rank whose log has matches; the last rank is tried first."""
        last = self._settings.ranks - 1
        others = [rank for rank in (last, *range(min(last, _MOST_OTHERS))) if rank != self._rank]
        for rank in others if self._printed.rank != ALL else ():
            path = os.path.join(self._settings.logs, layout.rank_log(rank))
            texts = texts_with(self._needed, read_log(path).encode().splitlines(keepends=True))
            if any(map(self._matches_in, texts)):
                word = {last: LAST, 0: FIRST}.get(rank, rank)
                key = "format" if self._printed.format else "pattern"
                return _OTHER_RANK.format(rank=rank, key=key, word=word)
        return ""

    def _matches_in(self, line: str) -> bool:
        return bool(len(line) <= LONGEST_LINE and self._pattern and self._pattern.search(line))

    def _last_line(self) -> str:
        texts = (text.strip() for text in shown(self._last.decode("utf-8", "replace").rstrip("\n")))
        found = [text for text in texts if text]
        return found[-1][:_LONGEST_SHOWN] if found else ""

    def _say(self, sentence: str, **words: object) -> str:
        name, pattern = self._printed.format, self._printed.pattern
        return sentence.format(
            pattern=f"format {name}" if name else f"pattern {pattern!r}", **words
        )

    def _write(self, records: Sequence[str]) -> None:
        if not records:
            return
        try:
            if self._file is None:
                self._file = open_for_append(self._path)
            write_all(self._file, "".join(records).encode())
        except OSError as error:
            self._pattern, self.metrics = None, []
            self._trouble(write_cause(error, self._path))


def _has_number(line: bytes) -> bool:
    return len(line) <= LONGEST_LINE and bool(_DIGIT.search(line))


def _holds_steps(path: str) -> bool:
    try:
        with open(open_regular(path), "rb") as file:
            return any(step is not None for step in read_steps(file.fileno()))
    except (OSError, NoStepsError):
        return False


def _holds(path: str, kind: str) -> bool:
    """Return whether a file has records of a kind."""
    try:
        with open(open_regular(path), encoding="utf-8", errors="replace") as file:
            return any(_kind(line) == kind for line in file)
    except OSError:
        return False


def _kind(line: str) -> object:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record.get("kind") if isinstance(record, dict) else None


def _before(settings: Settings, rank: int) -> bool:
    """Return whether an attempt that this one continues has measurements of a rank.

    If an attempt was interrupted after its last step, the next one has nothing to measure.
    """
    name, seen = settings.resume.partition("/")[0], set()
    while name and name not in seen:
        seen.add(name)
        earlier = Attempt(settings.run_dir, name)
        printed, steps = layout.printed(rank), layout.rank_steps(rank)
        if _holds(os.path.join(earlier.records, printed), "printed") or _holds_steps(
            os.path.join(earlier.records, steps)
        ):
            return True
        name = _continued(earlier)
    return False


def _continued(attempt: Attempt) -> str:
    """Return the attempt that a claimed attempt continues; empty for none."""
    continues = attempt.read(layout.CLAIM).get("continues")
    name = continues.get("attempt") if isinstance(continues, dict) else None
    return name if isinstance(name, str) and os.path.basename(name) == name else ""
