"""What a run is done for: throughput printed by rank 0, or steps recorded by it."""

from __future__ import annotations

import json
import os
import time
from typing import Any

from ..coordination.failure import Failure
from ..files import open_for_append, open_regular, write_all, write_cause
from ..settings import Settings
from ..step_rows import NoStepsError, read_steps
from .output import Trouble
from .printed_numbers import NoNumberError, rate_record, refused

# Throughput stands in short lines; a search in very long ones could take for ever (bytes).
_LONGEST_LINE = 4096
_NO_STEPS = (
    "the program ended well but recorded no steps: use argosy_steps in it, "
    "or give the experiment a 'throughput' pattern"
)
_NO_MATCH = (
    "the program ended well, but the experiment's 'throughput' pattern {pattern} matched none of the "
    "{lines} lines of rank 0{unsearched}; see {log}"
)
_NO_NUMBER = (
    "the program ended well, but what the experiment's 'throughput' pattern {pattern} found is no "
    "number: {found}; put the whole number, and nothing else, into its group"
)
_CUT = (
    "the experiment's 'throughput' pattern {pattern} takes {found}: a part of the number, so that what "
    "was measured is wrong; put the whole number into its group, or match what stands before and after it"
)


class PrintedThroughput:
    """Looks for the run's throughput pattern in lines and writes printed.jsonl."""

    def __init__(self, settings: Settings, trouble: Trouble) -> None:
        self._pattern = settings.run.throughput
        self._path = printed_path(settings)
        self._trouble = trouble
        self._file: int | None = None
        self._settings = settings
        self._lines = self._long_lines = 0
        self._no_number: NoNumberError | None = None

    def search(self, line: bytes) -> None:
        """Write down each match that is a number, and whether it is one of samples per second."""
        if self._pattern is None or not line.strip():
            return
        self._lines += 1
        if len(line) > _LONGEST_LINE:
            self._long_lines += 1
            return
        for match in self._pattern.finditer(line.decode("utf-8", "replace")):
            try:
                self._write(rate_record(match))
            except NoNumberError as problem:
                if self._no_number is None or (problem.cut and not self._no_number.cut):
                    self._no_number = problem
                if problem.cut:
                    self._write(refused(match))

    def failure(self) -> Failure | None:
        """Return the failure of a job whose ranks ended well without a measurement, or with a wrong one."""
        cause = self._cut() or self._nothing()
        return Failure(self._settings.node, None, cause, time.time()) if cause else None

    def _cut(self) -> str:
        found = self._no_number
        return self._say(_CUT, found=found) if found and found.cut else ""

    def _nothing(self) -> str:
        if something_measured(self._settings):
            return ""
        if self._settings.run.throughput is None:
            return _NO_STEPS
        if self._no_number:
            return self._say(_NO_NUMBER, found=self._no_number)
        unsearched = f" ({self._long_lines} of them, over 4 KiB, were not searched)"
        return self._say(
            _NO_MATCH,
            lines=self._lines,
            unsearched=unsearched if self._long_lines else "",
            log=f"logs/{self._settings.attempt}/ranks/rank-0.log",
        )

    def _say(self, sentence: str, **words: object) -> str:
        pattern = self._settings.run.throughput
        return sentence.format(pattern=repr(pattern.pattern if pattern else ""), **words)

    def _write(self, record: dict[str, Any]) -> None:
        record = {**record, "at": time.monotonic()}
        try:
            if self._file is None:
                self._file = open_for_append(self._path)
            write_all(self._file, json.dumps(record).encode() + b"\n")
        except OSError as error:
            self._pattern = None
            self._trouble(write_cause(error, self._path))


def printed_path(settings: Settings) -> str:
    """Return where the printed throughput is written."""
    return os.path.join(settings.records, "printed.jsonl")


def something_measured(settings: Settings) -> bool:
    """Return whether rank 0 printed a throughput or recorded a step."""
    return (
        _holds(printed_path(settings), "printed")
        or _holds_steps(settings.steps_file(0))
        or _holds(settings.lines_file(0), "collective")
    )


def _holds_steps(path: str) -> bool:
    try:
        with open(open_regular(path), "rb") as file:
            return any(step is not None for step in read_steps(file.fileno()))
    except (OSError, NoStepsError):
        return False


def _holds(path: str, kind: str) -> bool:
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
