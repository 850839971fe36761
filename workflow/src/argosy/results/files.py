"""Files of a run's measurement: steps, other records, printed numbers and telemetry."""

import math
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from io import BufferedReader
from pathlib import Path
from typing import Any, TypeVar

from argosy.results.measured_run import MeasuredRun
from argosy.results.tables import Run
from argosy.run_folder.models import check_version
from argosy_common.reading import json_of, open_regular

_FIRST_LINE_BYTES = 65536


@dataclass(frozen=True)
class RecordFile:
    """A file of records of the rank or node `number`.

    `offset_s` converts its times to seconds since `started`, the start of the run's last job; earlier jobs
    have negative times. A later job repeated the steps from `until_step` on.
    """

    path: str
    experiment: str
    run_id: str
    number: int
    started: float
    until_step: int | None
    offset_s: float | None = None

    @property
    def run(self) -> Run:
        return self.experiment, self.run_id


File = TypeVar("File", bound=RecordFile)


@dataclass(frozen=True)
class Header:
    """The first line of a file of JSON Lines.

    Args:
        keys: its keys; empty if it is truncated or not a header.
        is_all: whether the file has no other line.
    """

    keys: Mapping[str, Any]
    is_all: bool


def measured_files(run: MeasuredRun, name: re.Pattern[str]) -> Iterator[RecordFile]:
    """Yield the files of a completed run's measurement; the group of `name` is their number."""
    if run.state != "completed" or run.result is None:
        return
    for piece in run.pieces:
        for path in run.records(piece.attempt):
            if found := name.fullmatch(path.name):
                number = int(found[1] or 0)
                yield RecordFile(str(path), *run.key, number, run.result.started, piece.until)


def with_clock(file: File, unix: Any, monotonic: Any) -> File:
    """Return the file with the offset of its clock; without one if a time of its start is no number."""
    try:
        offset_s = float(unix) - float(monotonic) - file.started
    except (TypeError, ValueError, OverflowError):
        return file
    return replace(file, offset_s=offset_s) if math.isfinite(offset_s) else file


def site_of_records(path: Path) -> Path:
    """Return the folder below which files are untrusted, for a file of records or its copy."""
    above = path.parents
    return above[min(4, len(above) - 1)]


def open_records(path: Path | str) -> AbstractContextManager[BufferedReader]:
    """Open a file of records or its copy. Raises OSError."""
    return open_regular(Path(path), site_of_records(Path(path)))


def read_header(path: Path) -> Header:
    """Return the header of a file of JSON Lines.

    Raises RunFolderError for an unknown version, OSError for an unreadable file.
    """
    with open_records(path) as stream:
        first = stream.readline(_FIRST_LINE_BYTES)
        is_all = os.fstat(stream.fileno()).st_size <= len(first)
    try:
        header = json_of(first)
    except ValueError:
        return Header({}, is_all=not first)
    if not isinstance(header, dict) or header.get("kind") != "header":
        return Header({}, is_all=False)
    check_version(path, path.parents[4], header.get("schema_version"))
    return Header(header, is_all)
