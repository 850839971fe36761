"""Numbers in words, rounded to what they are good for."""

import math
from datetime import UTC, datetime

from argosy.report.statistics.estimates import Estimate
from argosy_common.units import amount

NONE = "–"
MINUS = "\u2212"


def number(value: float | None, digits: int = 3) -> str:
    """`value` to `digits` significant digits, never in powers of ten: 0.0123, 1.20, 12,300."""
    if value is None:
        return NONE
    if value == 0:
        return "0"
    if not math.isfinite(value):
        return (
            "not a number"
            if math.isnan(value)
            else _with_minus(f"{value:+.0f}".replace("inf", "∞"))
        )
    # Rounded first: 99.96 has a digit more before the point then.
    rounded = float(f"{value:.{digits - 1}e}")
    decimals = digits - 1 - math.floor(math.log10(abs(rounded)))
    return _with_minus(f"{rounded:,.{max(decimals, 0)}f}")


def of_metric(name: str, value: float) -> str:
    """Return the value of a metric with its unit, where the end of its name (`_bytes`, `_s`) tells that."""
    if name.endswith("_bytes") and value >= 0:
        return amount(round(value))
    return f"{number(value)} s" if name.endswith("_s") else number(value)


def percent(value: float | None, decimals: int = 0) -> str:
    return NONE if value is None else _with_minus(f"{100 * value:.{decimals}f} %")


def _with_minus(text: str) -> str:
    """Return a number with the minus sign of printed text in place of a hyphen; 0 has none."""
    is_zero = not any(digit in text for digit in "123456789")
    return text.replace("-", "" if is_zero else MINUS)


def interval(estimate: Estimate | None) -> str:
    """Return the interval in words: `1.48 to 1.79`; a dash where there is none."""
    if estimate is None or estimate.low is None or estimate.high is None:
        return NONE
    return f"{number(estimate.low)} to {number(estimate.high)}"


def percent_interval(estimate: Estimate | None, decimals: int = 0) -> str:
    if estimate is None or estimate.low is None or estimate.high is None:
        return NONE
    low = _with_minus(f"{100 * estimate.low:.{decimals}f}")
    return f"{low} to {percent(estimate.high, decimals)}"


def probability(value: float) -> str:
    """`p = 0.012`; what is smaller than 0.001 only as such."""
    return "p < 0.001" if value < 0.001 else f"p = {number(value, 2)}"


def duration(seconds: float | None) -> str:
    """`42.0 s`, `3 min 20 s`, `2 h 05 min`; `unknown` for None."""
    if seconds is None:
        return "unknown"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def moment(unix: float | None) -> str:
    """Date and time of day in UTC; none for what no calendar has."""
    try:
        return NONE if unix is None else f"{datetime.fromtimestamp(unix, UTC):%Y-%m-%d %H:%M}"
    except (OverflowError, ValueError, OSError):
        return NONE


UNIT = "samples"
"""What is counted a second where the experiment says nothing else."""


def singular(unit: str) -> str:
    """Return one of a unit in the plural, of which a regular English one is made."""
    return unit[:-2] if unit.endswith(("ses", "xes", "ches", "shes")) else unit.removesuffix("s")


def count(amount: int, singular: str) -> str:
    return f"{amount} {singular}" if amount == 1 else f"{amount} {singular}s"


def samples(mean: float) -> str:
    """Return how many samples a step has: a whole number, but for a mean of several."""
    return f"{mean:,.0f}" if mean.is_integer() else number(mean)
