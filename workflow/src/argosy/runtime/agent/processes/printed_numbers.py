"""Numbers as programs print them, and what a pattern makes of them."""

from __future__ import annotations

import math
import re
from typing import Any, Match

_GROUPED = re.compile(r"[+-]?[0-9]{1,3}(?:,[0-9]{3})+(\.[0-9]*)?")
# What, just before or after a match, makes the number that was found a part of a longer one.
# A minus that is no hyphen of a word belongs to it, too.
_BEFORE = re.compile(
    r"(?:[0-9]\.?|[0-9][eE][-+]?|(?<!\w)[-\u2212]|(?<![\w.,])[0-9]{1,3}(?:,[0-9]{3})*,)\Z"
)
_AFTER = re.compile(r"[0-9]|\.[0-9]|,[0-9]{3}(?![0-9])|[eE][+-]?[0-9]")
_DIGITS_FIRST = re.compile(r"[0-9]")
_DIGITS_LAST = re.compile(r"[0-9.]\Z")
_LONGEST_TEXT = 100
_AROUND = 12  # characters of a line that are shown on either side


class NoNumberError(Exception):
    """What was found is no number; the text says what it is. `cut`: it is a part of one."""

    def __init__(self, text: str, *, cut: bool = False) -> None:
        super().__init__(text)
        self.cut = cut


def number_of(match: Match[str]) -> float:
    """Return the number in the match's one group.

    A comma may separate thousands where it can mean nothing else: `1,234.5` and `1,234,567`. `1,234`
    is 1.234 in half of the world.

    Raises:
        NoNumberError: there is none, or the pattern takes a part of one.
    """
    text = match.group(1)
    if text is None:
        raise NoNumberError("nothing")
    text = text.strip()
    if _is_cut(match):
        raise NoNumberError(f"{text} of {_shown(match)}", cut=True)
    grouped = _GROUPED.fullmatch(text)
    if grouped and (grouped[1] is not None or text.count(",") > 1):
        text = text.replace(",", "")
    elif grouped:
        raise NoNumberError(f"{text}, whose comma may separate thousands or decimals")
    try:
        return float(text)
    except ValueError:
        raise NoNumberError(text) from None


def rate_record(match: Match[str]) -> dict[str, Any]:
    """Return what printed.jsonl says of a match, but for the time; refused where it can be no throughput.

    Raises:
        NoNumberError: as `number_of`.
    """
    rate = number_of(match)
    if 0 <= rate < math.inf:
        return {"kind": "printed", "samples_per_second": rate}
    return refused(match)


def refused(match: Match[str]) -> dict[str, Any]:
    """Return what printed.jsonl says of a match that is no throughput (docs/run-folder.md)."""
    return {"kind": "refused", "text": match.group(0)[:_LONGEST_TEXT]}


def _is_cut(match: Match[str]) -> bool:
    """Return whether the number goes on outside of what the pattern matches.

    What the pattern itself matches beside its group is meant to be there.
    """
    (start, end), line = match.span(1), match.string
    before = start == match.start() and _DIGITS_FIRST.match(match.group(1))
    after = end == match.end() and _DIGITS_LAST.search(match.group(1))
    return bool((before and _BEFORE.search(line, 0, start)) or (after and _AFTER.match(line, end)))


def _shown(match: Match[str]) -> str:
    start, end = match.span()
    words = match.string[max(0, start - _AROUND) : end + _AROUND].split()
    return repr(" ".join(words))
