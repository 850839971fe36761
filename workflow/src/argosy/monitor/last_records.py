"""The last records of files that ranks are writing, read from the back."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from argosy import reading
from argosy.run_folder.log_tail import TAIL_BYTES, tail

FAR = 1e15
"""Beyond all times, counts and speeds; what is beyond is no measurement. NaN is as well."""


def last_records(path: Path, top: Path, size: int = TAIL_BYTES) -> Iterator[dict[str, Any]]:
    """Yield the objects in the last `size` bytes, the newest first.

    Lines that are cut off, at either end, are passed over.
    """
    for line in reversed(tail(path, top, size).decode(errors="replace").split("\n")):
        try:
            found = reading.json_of(line)
        except ValueError:
            continue
        if isinstance(found, dict):
            yield found


def number(value: object) -> float | None:
    """Return a finite number out of a record, as whoever wrote it was free to write anything."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < FAR else None
