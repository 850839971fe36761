"""Packing and reading of rows in a file of steps (docs/run-folder.md).

The file is untrusted: each row is checked, and few rows are in memory at a time.
"""

from __future__ import annotations

import math
import os
import struct
from typing import Dict, Iterator, List, Mapping, NamedTuple, Optional

PHASES = ("data", "h2d", "forward", "backward", "communication", "update")

VERSION = 1
MAGIC = b"\x89STEPS\r\n"
BYTE_ORDER = 0x01020304
CHECK_BASE = 0x5354455053544550
"""Start value of a row's checksum, so that a row of zeros is invalid."""
ROW_BYTES = 96
"""Size of a row, and of the header."""

MOST_STEP = 2**31 - 1
"""Limit of steps and epochs; its square fits into 64 bits."""
UNKNOWN_EPOCH = -1
MOST_SAMPLES = 10**15 - 1
"""Limit of samples of one step of a rank."""
MOST_SECONDS = 1e300
"""Limit of times."""

HEADER = struct.Struct("<8s6I2d40x")
ROW = struct.Struct("<3q8d")
WORDS = struct.Struct("<12Q")
_BEGIN = struct.Struct("<8s2I")
_BODY = struct.Struct("<11Q")

_WORD_MASK = 2**64 - 1
_BLOCK_ROWS = 1000
_UNRECORDED = len(PHASES) * (math.nan,)


class NoStepsError(ValueError):
    """The file is no readable file of steps; the text is the cause."""


class Header(NamedTuple):
    """Rank and node of a file, and one instant by both clocks in seconds."""

    rank: int
    node: int
    unix: float
    monotonic: float


class Step(NamedTuple):
    """A step in seconds: `start` by the monotonic clock; `phases` has only recorded ones."""

    step: int
    epoch: Optional[int]
    samples: int
    start: float
    seconds: float
    phases: Dict[str, float]


def row(
    *,
    step: int,
    epoch: int,
    samples: int,
    start: float,
    seconds: float,
    phases: Mapping[str, float],
) -> bytes:
    """Pack a row; times are in seconds, `phases` by name."""
    recorded = map(phases.get, PHASES, _UNRECORDED)
    return with_check(ROW.pack(step, epoch, samples, start, seconds, *recorded))


def with_check(body: bytes) -> bytes:
    """Append the checksum to the eleven words of a row or header."""
    words = _BODY.unpack(body)
    return WORDS.pack(*words, (CHECK_BASE + sum(words)) & _WORD_MASK)


def row_header(rank: int, node: int, unix: float, monotonic: float) -> bytes:
    """Pack the header: rank, node, and one instant by both clocks in seconds."""
    sizes = (ROW_BYTES, ROW_BYTES)
    return with_check(HEADER.pack(MAGIC, BYTE_ORDER, VERSION, *sizes, rank, node, unix, monotonic))


def header_of(begin: bytes) -> Optional[Header]:
    """Parse the header in the first bytes of a file; None if it is incomplete. Raises NoStepsError."""
    if len(begin) < ROW_BYTES:
        return None
    magic, byte_order, version = _BEGIN.unpack_from(begin)
    if magic != MAGIC:
        raise NoStepsError("is not a file of steps")
    if byte_order != BYTE_ORDER:
        raise NoStepsError("is not little-endian")
    if version != VERSION:
        raise NoStepsError(f"its version is {version}; this Argosy reads {VERSION}")
    *_, header_bytes, row_bytes, rank, node, unix, monotonic = HEADER.unpack_from(begin)
    if not _has_good_check(begin[:ROW_BYTES]) or {header_bytes, row_bytes} != {ROW_BYTES}:
        raise NoStepsError("its header is damaged")
    return Header(rank, node, unix, monotonic)


def read_steps(file: int, first: int = 0) -> Iterator[Optional[Step]]:
    """Yield the steps of an open file from row `first` on, and None for each damaged or truncated row.

    Rows written meanwhile may be missing. Raises NoStepsError, OSError.
    """
    begin = os.pread(file, ROW_BYTES, 0)
    if header_of(begin) is None:
        if begin:
            yield None
        return
    place = (1 + first) * ROW_BYTES
    while True:
        block = os.pread(file, _BLOCK_ROWS * ROW_BYTES, place)
        whole = len(block) - len(block) % ROW_BYTES
        for at in range(0, whole, ROW_BYTES):
            yield _step_of(block[at : at + ROW_BYTES])
        place += whole
        if whole == 0:
            if block:
                yield None
            return


def last_steps(file: int, most: int) -> List[Step]:
    """Return the valid steps among the last `most` rows of an open file, the newest first.

    Returns an empty list for other files. Raises OSError.
    """
    rows = os.fstat(file).st_size // ROW_BYTES - 1
    try:
        steps = [step for step in read_steps(file, max(0, rows - most)) if step is not None]
    except NoStepsError:
        return []
    return steps[::-1]


def _step_of(row: bytes) -> Optional[Step]:
    if not _has_good_check(row):
        return None
    step, epoch, samples, start, seconds, *phases = ROW.unpack_from(row)
    recorded = {PHASES[n]: time for n, time in enumerate(phases) if not math.isnan(time)}
    if not (0 <= step <= MOST_STEP and 0 <= samples <= MOST_SAMPLES):
        return None
    if not all(0 <= time <= MOST_SECONDS for time in (start, seconds, *recorded.values())):
        return None
    known = epoch if 0 <= epoch <= MOST_STEP else None
    return Step(step, known, samples, start, seconds, recorded)


def _has_good_check(row: bytes) -> bool:
    *words, check = WORDS.unpack(row)
    return bool((CHECK_BASE + sum(words)) & _WORD_MASK == check)
