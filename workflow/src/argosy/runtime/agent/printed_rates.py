"""Which of the numbers that a program prints are samples per second."""

from __future__ import annotations

import math
import re
from typing import Any, Match, Optional

_LONGEST_TEXT = 100

# What makes the number that follows, or goes before, a piece of another one: digits with a decimal point,
# an exponent or a comma before three digits between them; a minus that is no hyphen of a word.
_BEGINNING = re.compile(r"(?:\d\.?|\d[eE][-+]?|(?<!\w)[-\u2212])\Z")
_THOUSANDS_BEFORE = re.compile(r"(?<!\d)\d{1,3}(?:,\d{3})*,\Z")
_THOUSANDS = re.compile(r"\d{3}(?!\d)")
_END = re.compile(r"\.?\d|[eE][-+]?\d")
_THOUSANDS_AFTER = re.compile(r",\d{3}(?!\d)")
_FEW_DIGITS = re.compile(r"\d{1,3}")


def printed_record(match: Match[str]) -> Optional[dict[str, Any]]:
    """What printed.jsonl says of a match of the throughput pattern (docs/run-folder.md), but for the time.

    None where its group is no number. A number that is no rate (negative, NaN, infinite), or of which the
    pattern finds a piece only, is `refused`: 234.5 is not what `1,234.5 samples/s` says.
    """
    try:
        rate = float(match.group(1))
    except (TypeError, ValueError):
        return None
    if 0 <= rate < math.inf and not _is_piece(match):
        return {"kind": "printed", "samples_per_second": rate}
    return {"kind": "refused", "text": match.group(0)[:_LONGEST_TEXT]}


def _is_piece(match: Match[str]) -> bool:
    # What the pattern itself names beside its group is left out on purpose.
    number = match.group(1)
    before = match.string[: match.start(1)] if match.start(1) == match.start() else ""
    after = match.string[match.end(1) :] if match.end(1) == match.end() else ""
    return bool(
        _BEGINNING.search(before)
        or (_THOUSANDS_BEFORE.search(before) and _THOUSANDS.match(number))
        or _END.match(after)
        or (_THOUSANDS_AFTER.match(after) and _FEW_DIGITS.fullmatch(number))
    )
