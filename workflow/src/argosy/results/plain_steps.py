"""The compiled reader of plain steps: lines as the recorder writes them.

It is a shared library from plain_steps.c, made where Argosy is installed if there is a C compiler.
"""

import ctypes
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from argosy.results.tables import PHASES

_SHORTEST_LINE = 90
"""Bytes of a plain step, at the least."""

Whole = npt.NDArray[np.int64]
Real = npt.NDArray[np.float64]


class _Columns(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("step", "epoch", "samples", "start", "seconds")),
        ("phases", ctypes.c_void_p * len(PHASES)),
        *((name, ctypes.c_void_p) for name in ("others_begin", "others_end")),
    )


class _Found(ctypes.Structure):
    _fields_ = (
        ("steps", ctypes.c_int64),
        ("phases", ctypes.c_int64 * len(PHASES)),
        ("others", ctypes.c_int64),
        ("other_runs", ctypes.c_int64),
    )


@dataclass(frozen=True)
class PlainSteps:
    """The plain steps among some lines of a file, in their order, and where the other lines are.

    `start` and `seconds` are as recorded; `phases` are by name, in seconds, NaN where not recorded; those
    that no step has are not there.
    `others` counts the other lines; `other_places` (n, 2) is where they begin and end, in bytes.
    """

    step: Whole
    epoch: Whole
    samples: Whole
    start: Real
    seconds: Real
    phases: Mapping[str, Real]
    others: int
    other_places: Whole


def is_compiled() -> bool:
    """Whether the reader was compiled when Argosy was installed."""
    return _reader() is not None


def most_steps(size: int) -> int:
    """How many plain steps begin in `size` bytes at the most."""
    return size // _SHORTEST_LINE + 2


def read_plain_steps(path: str, begin: int, end: int) -> PlainSteps:
    """Read the lines of the file `path` that begin at the bytes from `begin` to `end`.

    Other threads of Python go on meanwhile. Raises OSError when the file cannot be read.
    """
    reader = _reader()
    assert reader, "asked for without is_compiled()"
    capacity = most_steps(end - begin)
    whole = np.empty((3, capacity), np.int64)
    real = np.empty((2 + len(PHASES), capacity), np.float64)
    others = np.empty((2, capacity + 1), np.int64)
    addresses = [*_addresses(whole), *_addresses(real[:2])]
    columns = _Columns(
        *addresses, (ctypes.c_void_p * len(PHASES))(*_addresses(real[2:])), *_addresses(others)
    )
    found = _Found()
    with Path(path).open("rb", buffering=0) as file:
        status = reader(
            file.fileno(), begin, end, capacity, ctypes.byref(columns), ctypes.byref(found)
        )
    if status:
        raise OSError(status, os.strerror(status), path)
    step, epoch, samples = whole[:, : found.steps]
    start, seconds, *phases = real[:, : found.steps]
    return PlainSteps(
        step=step,
        epoch=epoch,
        samples=samples,
        start=start,
        seconds=seconds,
        phases={
            name: values
            for name, values, count in zip(PHASES, phases, found.phases, strict=True)
            if count
        },
        others=found.others,
        other_places=others[:, : found.other_runs].T,
    )


@cache
def _reader() -> Any:
    for suffix in EXTENSION_SUFFIXES:
        library = Path(__file__).with_name(f"_plain_steps{suffix}")
        try:
            # The number goes up with every change of what is handed over.
            reader = ctypes.CDLL(str(library)).argosy_plain_steps_1
        except (OSError, AttributeError):
            continue
        numbers = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
        reader.argtypes = (*numbers, ctypes.POINTER(_Columns), ctypes.POINTER(_Found))
        return reader
    return None


def _addresses(columns: npt.NDArray[Any]) -> Sequence[int]:
    return [column.ctypes.data for column in columns]
