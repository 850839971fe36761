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

from argosy.reading import descriptor_of
from argosy.results.lines import site_of_records
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
class Place:
    """The lines of the file `path` that begin at its bytes from `begin` to `end`."""

    path: str
    begin: int
    end: int


@dataclass(frozen=True)
class PlainSteps:
    """The plain steps at some places, in their order, and where the other lines are.

    `start` and `seconds` are as recorded; `phases` are by name, in seconds, NaN where not recorded; those
    that no step has are not there. `counts`, `others` and `other_runs` are by place: how many steps there
    are, how many other lines, and (n, 2) where these begin and end, in bytes.
    """

    step: Whole
    epoch: Whole
    samples: Whole
    start: Real
    seconds: Real
    phases: Mapping[str, Real]
    counts: Whole
    others: Whole
    other_runs: Sequence[Whole]


def is_compiled() -> bool:
    """Whether the reader was compiled when Argosy was installed."""
    return _reader() is not None


def read_plain_steps(places: Sequence[Place]) -> PlainSteps:
    """Read the lines at `places`.

    Other threads of Python go on meanwhile. Raises OSError when a file cannot be read.
    """
    capacity = sum((place.end - place.begin) // _SHORTEST_LINE + 2 for place in places)
    whole = np.empty((3, capacity), np.int64)
    real = np.empty((2 + len(PHASES), capacity), np.float64)
    runs = np.empty((2, capacity + len(places)), np.int64)
    addresses = [*_addresses(whole), *_addresses(real[:2])]
    phases = (ctypes.c_void_p * len(PHASES))(*_addresses(real[2:]))
    columns = _Columns(*addresses, phases, *_addresses(runs))
    found = _Found()
    totals = np.zeros((3, len(places) + 1), np.int64)
    for number, place in enumerate(places, start=1):
        _read(place, capacity, columns, found)
        totals[:, number] = found.steps, found.others, found.other_runs
    counts, others, _ = np.diff(totals)
    step, epoch, samples = whole[:, : found.steps]
    start, seconds, *of_phases = real[:, : found.steps]
    return PlainSteps(
        step=step,
        epoch=epoch,
        samples=samples,
        start=start,
        seconds=seconds,
        phases={
            name: values
            for name, values, count in zip(PHASES, of_phases, found.phases, strict=True)
            if count
        },
        counts=counts,
        others=others,
        other_runs=np.split(runs[:, : found.other_runs].T, totals[2, 1:-1]),
    )


def _read(place: Place, capacity: int, columns: _Columns, found: _Found) -> None:
    reader = _reader()
    assert reader, "asked for without is_compiled()"
    path = Path(place.path)
    file = descriptor_of(path, site_of_records(path))
    try:
        status = reader(
            file, place.begin, place.end, capacity, ctypes.byref(columns), ctypes.byref(found)
        )
    finally:
        os.close(file)
    if status:
        raise OSError(status, os.strerror(status), place.path)


@cache
def _reader() -> Any:
    for suffix in EXTENSION_SUFFIXES:
        library = Path(__file__).with_name(f"_plain_steps{suffix}")
        try:
            # The number goes up with every change of what is handed over, and of what counts as a step.
            reader = ctypes.CDLL(str(library)).argosy_plain_steps_2
        except (OSError, AttributeError):
            continue
        numbers = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
        reader.argtypes = (*numbers, ctypes.POINTER(_Columns), ctypes.POINTER(_Found))
        return reader
    return None


def _addresses(columns: npt.NDArray[Any]) -> Sequence[int]:
    return [column.ctypes.data for column in columns]
