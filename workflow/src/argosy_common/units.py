"""Durations and sizes as users write them. Standard library only, since nodes load it."""

import re
from datetime import timedelta
from typing import Any

from argosy_common.errors import ArgosyError

# Nine digits: enough for any machine, and within the integers of other programs.
DURATION = re.compile("".join(f"(?:([0-9]{{1,9}}){unit})?" for unit in "dhms"))
J_PER_KWH = 3.6e6
SIZE = re.compile(r"([0-9]{1,9})([KMGT])")


def seconds(value: Any) -> Any:
    """Convert `30m`, `2h`, `1d12h` to seconds; leave other types to pydantic."""
    if isinstance(value, bool | float):
        raise ValueError("write a duration as 30m, 2h or 1d12h")
    if not isinstance(value, str):
        return value
    parts = DURATION.fullmatch(value.strip())
    if not parts or not any(parts.groups()):
        raise ValueError("write a duration as 30m, 2h or 1d12h")
    days, hours, minutes, secs = (int(part or 0) for part in parts.groups())
    span = timedelta(days=days, hours=hours, minutes=minutes, seconds=secs)
    return int(span.total_seconds())


def span(option: str, text: str) -> float:
    """Convert an option's value to seconds; raise ArgosyError."""
    try:
        return float(seconds(text))
    except ValueError as problem:
        raise ArgosyError(f"{option} {text}: {problem}") from None


def duration(value: int) -> str:
    """Format seconds as `2h`, `1d12h`."""
    parts = (value // 86400, value // 3600 % 24, value // 60 % 60, value % 60)
    return "".join(f"{n}{unit}" for n, unit in zip(parts, "dhms", strict=True) if n) or "0s"


def mebibytes(value: Any) -> Any:
    """Convert `16G` to mebibytes; leave other types to pydantic."""
    if not isinstance(value, str):
        return value
    parts = SIZE.fullmatch(value.strip())
    if not parts:
        raise ValueError("write a size as 512M, 16G or 1T")
    kibibytes = int(parts[1]) * 1024 ** "KMGT".index(parts[2])
    return max(1, kibibytes // 1024)


def amount(value: int) -> str:
    """Format bytes with three digits: `0 B`, `512 B`, `1.23 GiB`."""
    size, unit = float(value), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if size < 1000:
            break
        size, unit = size / 1024, larger
    return f"{value} B" if unit == "B" else f"{size:.3g} {unit}"
