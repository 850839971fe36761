"""Replaces lines of records that are too long to be valid.

DuckDB holds a line in memory whole, and rejects a file with a line of 16 MiB. Such a line is replaced by an
empty object, which counts as unreadable; the other lines are read.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from argosy.results.files import File, open_records

LONGEST_LINE = 8 << 20
"""Bytes."""
_STAND_IN = b"{}\n"
_BLOCK = 1 << 20


def without_long_lines(files: Sequence[File], work: Path) -> list[File]:
    """Return the files; a file with a line longer than `LONGEST_LINE` is replaced by a copy below `work`.

    A copy keeps the last five parts of the path, which identify run and attempt.
    """
    return [_shortened(file, work) if _has_long_line(file.path) else file for file in files]


def _shortened(file: File, work: Path) -> File:
    target = work.joinpath(*Path(file.path).parts[-5:])
    target.parent.mkdir(parents=True, exist_ok=True)
    with open_records(file.path) as source, target.open("wb") as copy:
        copy.writelines(_short_lines(source, os.fstat(source.fileno()).st_size))
    return replace(file, path=str(target))


def _short_lines(source: BinaryIO, size: int) -> Iterator[bytes]:
    is_within = False
    while size > 0 and (line := source.readline(min(LONGEST_LINE, size))):
        size -= len(line)
        is_ended = line.endswith(b"\n") or size == 0
        if is_ended and not is_within:
            yield line
        elif is_ended:
            yield _STAND_IN
        is_within = not is_ended


def _has_long_line(path: str) -> bool:
    length = 0
    with open_records(path) as file:
        if os.fstat(file.fileno()).st_size <= LONGEST_LINE:
            return False
        while block := file.read(min(_BLOCK, LONGEST_LINE)):
            first = block.find(b"\n")
            if length + (len(block) if first < 0 else first + 1) > LONGEST_LINE:
                return True
            length = length + len(block) if first < 0 else len(block) - block.rfind(b"\n") - 1
    return False
