"""Files of steps, written by the recorder's own code and read as agents read them."""

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import argosy
from argosy.runtime.contract import steps
from argosy.runtime.contract.steps import ROW_BYTES, Step
from argosy.runtime.contract.steps import read_steps as rows_of_file

sys.path.append(str(Path(argosy.__file__).parent / "runtime/python"))

STEP: dict[str, Any] = {
    "step": 0,
    "epoch": 0,
    "samples": 32,
    "start": 1.0,
    "seconds": 0.5,
    "phases": {},
}


def header(rank: int = 0, unix: float = 0.0, monotonic: float = 0.0, node: int = 0) -> bytes:
    """Return the begin of a rank's file."""
    found: bytes = steps.row_header(rank, node, unix, monotonic)
    return found


def row(step: Mapping[str, Any]) -> bytes:
    """Return the row of a step, of which only what differs from STEP is given."""
    keys = {name: value for name, value in step.items() if name != "kind"}
    found: bytes = steps.row(**STEP | keys)
    return found


def with_check(body: bytes) -> bytes:
    """Return a row, or a header, with the check that fits its other words."""
    found: bytes = steps.with_check(body)
    return found


def rows(path: Path) -> list[bytes]:
    """Return the rows of a file, its header first and, as it is, what follows the whole ones."""
    text = path.read_bytes()
    return [text[place : place + ROW_BYTES] for place in range(0, len(text), ROW_BYTES)]


def write_rows(path: Path, parts: Iterable[bytes]) -> None:
    """Write a file out of its rows, the header first."""
    path.write_bytes(b"".join(parts))


def append(path: Path, *steps: Mapping[str, Any]) -> None:
    """Write steps at the end of a file."""
    with path.open("ab") as file:
        file.writelines(row(step) for step in steps)


def change(path: Path, number: int, **values: Any) -> None:
    """Change the step that stands in a file's row `number`, from 1, and write it as the recorder would."""
    parts = rows(path)
    parts[number] = row(as_record(all_steps(path)[number - 1]) | values)
    write_rows(path, parts)


def change_clock(path: Path, rank: int, unix: float, monotonic: float) -> None:
    """Give a file another header."""
    write_rows(path, [header(rank, unix, monotonic), *rows(path)[1:]])


def all_steps(path: Path) -> Sequence[Step]:
    """Return the steps of a file that is there, whole and as the recorder wrote it."""
    file = os.open(path, os.O_RDONLY)
    try:
        found = list(rows_of_file(file))
    finally:
        os.close(file)
    steps = [step for step in found if step is not None]
    assert len(steps) == len(found)
    return steps


def as_record(step: Step) -> dict[str, Any]:
    """Return what the recorder was given for a step."""
    return step._asdict()


def count(path: Path) -> int:
    """Return how many steps a file holds by now; 0 where there is none."""
    return max(0, path.stat().st_size // ROW_BYTES - 1) if path.exists() else 0
