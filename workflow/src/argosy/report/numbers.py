"""Format numbers, intervals, durations and dates for readers."""

import math
from datetime import UTC, datetime

from argosy.report.statistics.estimates import Estimate
from argosy_common.units import amount

NONE = "–"
MINUS = "\u2212"


def number(value: float | None, digits: int = 3) -> str:
    """Format a number with `digits` significant digits and no exponent: 0.0123, 1.20, 12,300."""
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
    # Rounding first: 99.96 becomes 100.
    rounded = float(f"{value:.{digits - 1}e}")
    decimals = digits - 1 - math.floor(math.log10(abs(rounded)))
    return _with_minus(f"{rounded:,.{max(decimals, 0)}f}")


def of_metric(name: str, value: float) -> str:
    """Format a metric, with the unit that the suffix of its name (`_bytes`, `_s`) gives."""
    if name.endswith("_bytes") and value >= 0:
        return amount(round(value))
    return f"{number(value)} s" if name.endswith("_s") else number(value)


def percent(value: float | None, decimals: int = 0) -> str:
    return NONE if value is None else _with_minus(f"{100 * value:.{decimals}f} %")


def _with_minus(text: str) -> str:
    """Replace the hyphen of a number with a minus sign, and -0 with 0."""
    is_zero = not any(digit in text for digit in "123456789")
    return text.replace("-", "" if is_zero else MINUS)


_MOST_DIGITS = 6


def _digits(estimate: Estimate) -> int:
    """Return the digits of a mean and its interval: 3, or more if its ends would look the same."""
    low, high = estimate.low, estimate.high
    if low is None or high is None:
        return 3
    return next(
        (few for few in range(3, _MOST_DIGITS) if number(low, few) != number(high, few)),
        _MOST_DIGITS,
    )


def mean_text(estimate: Estimate) -> str:
    """Format a mean beside its interval."""
    return number(estimate.mean, _digits(estimate))


def interval(estimate: Estimate | None) -> str:
    """Format an interval as `1.48 to 1.79`; a dash if there is none."""
    if estimate is None or estimate.low is None or estimate.high is None:
        return NONE
    digits = _digits(estimate)
    return f"{number(estimate.low, digits)} to {number(estimate.high, digits)}"


def percent_interval(estimate: Estimate | None, decimals: int = 0) -> str:
    if estimate is None or estimate.low is None or estimate.high is None:
        return NONE
    low = _with_minus(f"{100 * estimate.low:.{decimals}f}")
    return f"{low} to {percent(estimate.high, decimals)}"


def probability(value: float) -> str:
    """Format a probability as `p = 0.012`, or `p < 0.001`."""
    return "p < 0.001" if value < 0.001 else f"p = {number(value, 2)}"


def duration(seconds: float | None) -> str:
    """Format a duration as `0.012 s`, `42.0 s`, `3 min 20 s`, `2 h 05 min`, or `unknown` for None."""
    if seconds is None:
        return "unknown"
    if 0 < seconds < 0.1:
        return f"{number(seconds, 2)} s"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def moment(unix: float | None) -> str:
    """Format a Unix time as date and time in UTC; a dash if it is outside the calendar."""
    try:
        return NONE if unix is None else f"{datetime.fromtimestamp(unix, UTC):%Y-%m-%d %H:%M}"
    except (OverflowError, ValueError, OSError):
        return NONE


UNIT = "samples"
"""Default unit of throughput, per second."""


def singular(unit: str) -> str:
    """Return the singular of a regular English plural."""
    return unit[:-2] if unit.endswith(("ses", "xes", "ches", "shes")) else unit.removesuffix("s")


def count(amount: int, singular: str) -> str:
    return f"{amount} {singular}" if amount == 1 else f"{amount} {singular}s"


def samples(mean: float) -> str:
    """Format a mean number of samples per step, exactly if it is a whole number."""
    return f"{mean:,.0f}" if mean.is_integer() else number(mean)
