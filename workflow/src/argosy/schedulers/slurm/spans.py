"""How Slurm writes spans of time."""

import re

_SPAN = re.compile(r"(?:(\d+)-)?(\d+(?::\d+){0,2})")
_WITH_DAYS = (3600, 60, 1)
_WITHOUT = {1: (60,), 2: (60, 1), 3: (3600, 60, 1)}


def seconds(text: str) -> float | None:
    """Return a span in seconds; None for words such as `UNLIMITED`, `infinite` and `INVALID`.

    Source: sbatch(1), --time: minutes, minutes:seconds, hours:minutes:seconds, days-hours,
    days-hours:minutes and days-hours:minutes:seconds.
    """
    found = _SPAN.fullmatch(text.strip())
    if not found:
        return None
    days, clock = found.groups()
    parts = [int(part) for part in clock.split(":")]
    weights = _WITHOUT[len(parts)] if days is None else _WITH_DAYS
    of_clock = sum(part * weight for part, weight in zip(parts, weights, strict=False))
    return float(int(days or 0) * 86_400 + of_clock)
