"""Numbers as programs print them, and what a pattern makes of them."""

from __future__ import annotations

import json
import math
import re
from typing import Match

from .numerals import UnclearError, is_part, value

_LONGEST_TEXT = 100
_AROUND = 24  # characters of a line that are shown on either side

# Most numbers stand alone between words, which takes a tenth of the time to see.
_PLAIN = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_PLAIN_BEFORE = re.compile(r"[A-WYZa-wyz=:,;|)\]\"'>][ =:(\[{\"]")
_PLAIN_AFTER = re.compile(
    r"\Z|[;)\]}\"|]|, | (?!thou|tril|mil|mio|mrd|mn|bil|bn|la)[a-jl-wyz]|it/s"
)


class NoNumberError(Exception):
    """What was found is no number; the text says what it is. `cut`: it is a part of one."""

    def __init__(self, text: str, *, cut: bool = False) -> None:
        super().__init__(text)
        self.cut = cut


def number_of(match: Match[str]) -> float:
    """Return the number in the match's one group, if the group holds the whole of it.

    Raises:
        NoNumberError: there is none, or the pattern takes a part of one.
    """
    text = match.group(1)
    if text and _is_plain(match, text):
        return float(text)
    if text is None:
        raise NoNumberError(f"nothing in {_shown(match, *match.span())}")
    start, end = match.span(1)
    start += len(text) - len(text.lstrip())
    text = text.strip()
    if text and is_part(match.string, start, start + len(text)):
        raise NoNumberError(f"{text} of {_shown(match, start, end)}", cut=True)
    try:
        return value(text)
    except UnclearError:
        unclear = (
            f"{text}, whose comma may separate thousands or decimals: print a number without it"
        )
        raise NoNumberError(unclear) from None
    except ValueError:
        raise NoNumberError(text or f"nothing in {_shown(match, start, end)}") from None


def _is_plain(match: Match[str], text: str) -> bool:
    line, (start, end) = match.string, match.span(1)
    return bool(
        _PLAIN.fullmatch(text)
        and (start == 0 or _PLAIN_BEFORE.fullmatch(line, max(0, start - 2), start))
        and _PLAIN_AFTER.match(line, end)
    )


def rate_of(match: Match[str]) -> float:
    """Return the throughput in a match's group: a number that is finite and not negative.

    Raises:
        NoNumberError: there is none.
    """
    rate = number_of(match)
    if 0 <= rate < math.inf:
        return rate
    raise NoNumberError(f"{match.group(1).strip()}, which is no throughput")


def record(rate: float, at: float) -> str:
    """Return the line of printed.jsonl for a throughput (docs/run-folder.md)."""
    return f'{{"kind": "printed", "samples_per_second": {rate!r}, "at": {at!r}}}\n'


def refused(match: Match[str], at: float) -> str:
    """Return the line of printed.jsonl for a match that is no throughput."""
    text = match.group(0)[:_LONGEST_TEXT]
    return json.dumps({"kind": "refused", "text": text, "at": at}) + "\n"


def unsearched(characters: int, at: float) -> str:
    """Return the line of printed.jsonl for a line of output that is too long to be searched."""
    return json.dumps({"kind": "unsearched", "characters": characters, "at": at}) + "\n"


def _shown(match: Match[str], start: int, end: int) -> str:
    words = match.string[max(0, start - _AROUND) : end + _AROUND].split()
    return repr(" ".join(words))
