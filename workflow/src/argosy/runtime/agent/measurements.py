"""What a run is done for: throughput printed by rank 0, or steps recorded by it."""

from __future__ import annotations

import json
import os
import time
from typing import Any

from .failure import Failure
from .files import open_for_append, write_all, write_cause
from .output import Trouble
from .printed_rates import printed_record
from .settings import Settings

# Throughput stands in short lines; a search in very long ones could take for ever (bytes).
_LONGEST_LINE = 4096
_NO_STEPS = (
    "the program ended well but recorded no steps: use argosy_steps in it, "
    "or give the experiment a 'throughput' pattern"
)


class PrintedThroughput:
    """Looks for the run's throughput pattern in lines and writes printed.jsonl."""

    def __init__(self, settings: Settings, trouble: Trouble) -> None:
        self._pattern = settings.run.throughput
        self._path = printed_path(settings)
        self._trouble = trouble
        self._file: int | None = None

    def search(self, line: bytes) -> None:
        """Write down each match that is a number, and whether it is one of samples per second."""
        if self._pattern is None or len(line) > _LONGEST_LINE:
            return
        for match in self._pattern.finditer(line.decode("utf-8", "replace")):
            record = printed_record(match)
            if record is not None:
                self._write({**record, "at": time.monotonic()})

    def _write(self, record: dict[str, Any]) -> None:
        try:
            if self._file is None:
                self._file = open_for_append(self._path)
            write_all(self._file, json.dumps(record).encode() + b"\n")
        except OSError as error:
            self._pattern = None
            self._trouble(write_cause(error, self._path))


def printed_path(settings: Settings) -> str:
    """Where the printed throughput is written."""
    return os.path.join(settings.records, "printed.jsonl")


def nothing_measured(settings: Settings) -> Failure | None:
    """The failure of a job whose ranks ended well without a measurement."""
    steps = os.path.join(settings.records, "rank-0.jsonl")
    if _holds(printed_path(settings), "printed") or _holds(steps, "step", "collective"):
        return None
    return Failure(settings.node, None, _NO_STEPS, time.time())


def _holds(path: str, *kinds: str) -> bool:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return any(_kind(line) in kinds for line in file)
    except OSError:
        return False


def _kind(line: str) -> object:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record.get("kind") if isinstance(record, dict) else None
