"""Times and counts as the table writes them."""


def span(seconds: float) -> str:
    """`42s`, `12m03s`, `1h05m`, `2d03h`: short, and never taken for a time of day."""
    whole = max(0, int(seconds))
    for size, unit, part, smaller in (
        (86400, "d", 3600, "h"),
        (3600, "h", 60, "m"),
        (60, "m", 1, "s"),
    ):
        if whole >= size:
            return f"{whole // size}{unit}{whole % size // part:02}{smaller}"
    return f"{whole}s"


def rate(samples_per_s: float) -> str:
    """Return three or more significant digits, thousands apart."""
    if samples_per_s >= 100:
        return f"{samples_per_s:,.0f}"
    return f"{samples_per_s:.1f}" if samples_per_s >= 10 else f"{samples_per_s:.2f}"


def plural(count: int, word: str) -> str:
    """`1 run`, `2 runs`."""
    return f"{count} {word}" + ("" if count == 1 else "s")
