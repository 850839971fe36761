"""Parses printed numbers, and detects patterns that capture only a part of one.

A numeral includes signs, separators of thousands, decimals and exponents of any country's notation.
It also includes suffixes that change its meaning (`k`, `%`, `/7`, `:02`).
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from typing import Dict, Match

from ...contract.throughput import NUMBER

_MINUS = "\u2212\u2010\u2011\u2012\u2013\ufe63\uff0d"
_ODD = "\u00bd"
"""Replaces characters that have a numeric value and are no digits: `½`, `²`."""
_LIKE: Dict[str, str] = {
    **dict.fromkeys(_MINUS, "-"),
    **dict.fromkeys("\uff0b\ufe62", "+"),
    **dict.fromkeys("\uff0e\ufe52\u2024\u066b", "."),
    **dict.fromkeys("\uff0c\ufe50\u3001\u060c", ","),
    **dict.fromkeys("\u00d7\u22c5\u2217", "*"),
    **dict.fromkeys("\u2215\u2044\uff0f", "/"),
    **dict.fromkeys("\uff1a\u2236", ":"),
    **dict.fromkeys("\uff05\u2030\u066a", "%"),
    "`": "'",
}
_SIGNS_OF_THOUSANDS = ("Po", "Pi", "Pf", "Pc", "Sk", "Lm")
_REACH = 64  # characters to examine on either side of a capture


class _Plain(Dict[int, str]):
    """Translation table of characters into their ASCII equivalents in numerals."""

    def __missing__(self, code: int) -> str:
        found = self[code] = _role(chr(code))
        return found


def _role(character: str) -> str:
    if character in _LIKE:
        return _LIKE[character]
    if character < "\x80":
        return character
    category = unicodedata.category(character)
    if category == "Nd":
        return str(unicodedata.decimal(character))
    if category in ("No", "Nl"):
        return _ODD
    if category == "Zs":
        return " "
    return "'" if category in _SIGNS_OF_THOUSANDS else character


_PLAIN = _Plain()

# Separators between digits: some always belong to one number, others may separate two.
_RUN_BEFORE = re.compile(r"[0-9](?:[0-9]|[.,_' ](?=[0-9]))*[.,_' ]?\Z")
_RUN_AFTER = re.compile(r"[.,_' ]?[0-9](?:[0-9]|[.,_' ](?=[0-9]))*")
_DIVIDERS = re.compile(r"[, ]")
# Texts before a number that ends at the next space: times, dates, exponents, names, counters.
_ENDS_AT_SPACE = re.compile(
    r"(?:[0-9][-:/]|\w-|[eEdD]\+|[A-Za-z_#]"
    r"|(?i:\b(?:steps?|epochs?|iter(?:ation)?s?|it|batch(?:es)?|rank|node|gpu|worker|round|stage|phase|"
    r"update|task|trial|shard|repeat|no|nr)\b[.:=#]* ?))\Z"
)
_WHOLE = re.compile(
    r"(?:[1-9][0-9]{0,2}(?:,[0-9]{2,3})*,[0-9]{3}|[1-9][0-9]{0,2}(?: [0-9]{3})+)(?:\.[0-9]+)?"
    r"|(?:[0-9]+|[0-9]{1,3}(?:[.'_ ][0-9]{3})+),[0-9]+"
    r"|[0-9._']+"
)

# Words whose first letter could also be an SI prefix.
_WORDS = (
    r"(?i:(?:keys?|kernels?|knots?|tok(?:en)?s?|tks|tasks?|tiles?|trees?|tweets?|trials?|trajector\w*|"
    r"trans\w*|tuples?|triplets?|texts?|tps|graphs?|games?|gpus?|groups?|gradients?|genes|pix(?:el)?s?|"
    r"points?|pts|patch(?:es)?|pairs?|particles?|packets?|pages?|papers?|products?|positions?|proteins?|"
    r"persons?|people|predictions?|messages?|msgs?|mol(?:ecule)?s?|models?|moves?|mesh(?:es)?|mini\w*|"
    r"minutes?|elements?|elems?|edges?|examples?|epochs?|episodes?|entr(?:y|ies)|events?|evts?|evals?)"
    r"(?![a-z]))"
)
_PER = r"/ ?(?:s|sec|second|min|minute|h|hour|step|it|iter|iteration|epoch)\b"
_PREFIX = (
    rf"(?:(?!{_WORDS})(?:"
    rf"[kKMGTPE]i?[A-Za-z]{{1,12}} ?{_PER}"
    r"|[kKMGTPE]i?(?:Hz|[Bb](?:ps|ytes?|its?)?|FLOPS?|[Ff]lops?|LUPS|TEPS|UPS|IPS)(?![A-Za-z])"
    r"))"
)
_SCALED_BEHIND = re.compile(
    rf"{_PREFIX}| {_PREFIX}"
    r"|[kKMGTPEm]i?(?![A-Za-z])| ?[bB](?![A-Za-z/:=])(?! [-+]?[0-9])"
    r"|(?! ?[kKMGTPE] ?(?:[:=]| [0-9])) [kKMGTPE]i?(?![A-Za-z:=])(?! [-+]?[0-9])"
    rf"|(?!{_WORDS})k[A-Za-z]"
    r"|(?i: ?(?:thousand|million|billion|trillion|lakh|crore|mio|mrd|mn|bn)(?![a-z]))"
    "| ?[\u5341\u767e\u5343\u4e07\u842c\u5104\u4ebf\u5146]"
)
_BEHIND = re.compile(
    rf"{_ODD}| ?%|[eEdD][-+]?[0-9]| ?/ ?[0-9]|-[0-9]|[dhms][0-9]"
    rf"| ?[*xX] ?10 ?(?:\^|\*\*|{_ODD})| ?\^ ?[-+]?[0-9]|\*\*[-+]?[0-9]"
)
_TIME_BEHIND = re.compile(r":[0-5][0-9](?![0-9])")
_BASE_BEHIND = re.compile(r"[xXbBoO][0-9a-fA-F]")
_BEFORE = re.compile(
    rf"(?:{_ODD}|[0-9][eEdD][-+]?|[0-9]-|(?<!\w)-|[0-9] ?/ ?|(?<![\w.])\.|\b0[xXbBoO][0-9a-fA-F]*"
    r"|[0-9] ?\^ ?[-+]?|[0-9]\*\*[-+]?|[0-9][dhms])\Z"
)
_BEFORE_SIGN = re.compile(r"[0-9](?:[eEdD]| ?\^ ?|\*\*| ?/ ?)?\Z")
_TIME_BEFORE = re.compile(r"(?<![A-Za-z])[0-9]+:\Z")
_OF_TIME = re.compile(r"[0-5][0-9](?![0-9])")
_LETTER_BEFORE = re.compile(r"[A-Za-z]\Z")
_LETTERS = re.compile(r"[A-Za-z]+")

_NUMBER = re.compile(
    r"(?P<sign>[-+]?)(?P<whole>[0-9]{1,3}(?P<mark>[,_' ])(?:[0-9]{2,3}(?P=mark))*[0-9]{3}"
    r"|[0-9]*)(?P<rest>(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?) ?(?P<scale>[kKMGTP]?)"
)
_SCALES = {"": "", "k": "e3", "K": "e3", "M": "e6", "G": "e9", "T": "e12", "P": "e15"}


class UnclearError(ValueError):
    """The numeral is ambiguous."""


def plain(text: str) -> str:
    """Replace digits, signs, points and spaces by ASCII ones; the length stays the same."""
    return text if text.isascii() and "`" not in text else text.translate(_PLAIN)


def is_part(line: str, start: int, end: int) -> bool:
    """Return whether line[start:end] cuts a numeral."""
    begin = max(0, start - _REACH)
    around = plain(line[begin : end + _REACH])
    start, end = start - begin, end - begin
    digits = [place for place in range(start, end) if around[place].isdigit()]
    if not digits:
        return False
    before, after = around[:start], around[end:]
    if any(_goes_on(around, start, end, place) for place in {digits[0], digits[-1]}):
        return True
    asked = around[start:end]
    return _is_marked_before(before, asked, after) or _is_marked_behind(before, asked, after)


def _goes_on(around: str, start: int, end: int, place: int) -> bool:
    """Return whether a numeral with the digit at `place` begins before `start` or ends after `end`."""
    found = _RUN_BEFORE.search(around, 0, place)
    begin = found.start() if found else place
    behind = _RUN_AFTER.match(around, place)
    until = behind.end() if behind else place + 1
    if _ENDS_AT_SPACE.search(around, 0, begin):
        begin = max(begin, around.find(" ", begin, place) + 1)
    begins = [begin, *(one.end() for one in _DIVIDERS.finditer(around, begin, place))]
    ends = [until, *(one.start() for one in _DIVIDERS.finditer(around, place, until))]
    return any(
        (one < start or other > end) and _WHOLE.fullmatch(around, one, other)
        for one in begins
        for other in ends
    )


def _is_marked_before(before: str, asked: str, after: str) -> bool:
    if asked[0] in "+-":
        return bool(_BEFORE_SIGN.search(before))
    if asked[0] not in "0123456789.,":
        return False
    if _BEFORE.search(before) and not (asked[0] == "." and before.endswith(".")):
        return True
    return bool(_TIME_BEFORE.search(before) and _OF_TIME.match(asked + after))


def _is_marked_behind(before: str, asked: str, after: str) -> bool:
    if not asked[-1].isdigit() and asked[-1] != ".":
        return _is_scaled_word(asked, after)
    if asked[-1].isdigit() and _TIME_BEHIND.match(after):
        return not (asked[0].isdigit() and _LETTER_BEFORE.search(before))
    if asked == "0" and _BASE_BEHIND.match(after):
        return True
    return bool(_BEHIND.match(after) or _SCALED_BEHIND.match(after))


def _is_scaled_word(asked: str, after: str) -> bool:
    """Return whether the final SI prefix of `asked` begins a word, or is the `K` of `Ki`."""
    if asked[-1] not in _SCALES:
        return asked[-1] == "e" and bool(re.match(r"[-+]?[0-9]", after))
    rest = _LETTERS.match(after)
    if rest is None:
        return False
    return bool(re.match(r"i(?:[A-Z]|\Z)", rest[0]) or re.match(_WORDS, asked[-1] + rest[0]))


def value(text: str) -> float:
    """Parse a whole numeral, or the name of NaN or infinity.

    Raises:
        UnclearError: the numeral is ambiguous: `1,234` is 1.234 in many countries.
        ValueError: the text is no number.
    """
    text = plain(text.strip())
    if text.count(".") > 1:
        # The last point ends a sentence.
        text = text.rstrip(".")
    found = _NUMBER.fullmatch(text)
    if found is None or not re.search("[0-9]", found["whole"] + found["rest"]):
        return float(text)
    mark, whole = found["mark"], found["whole"]
    if mark == "," and "." not in found["rest"] and whole.count(",") == 1:
        raise UnclearError(text)
    digits = whole.replace(mark, "") if mark else whole
    if found["scale"] and "e" in found["rest"].lower():
        raise ValueError(text)
    return float(found["sign"] + digits + found["rest"] + _SCALES[found["scale"]])


# Longest searched line in characters: patterns may take too long in longer ones.
LONGEST_LINE = 4096
LONGEST_TEXT = 100
_PERCENT = re.compile(" ?%")
_AROUND = 24  # characters of context in messages

# Fast path: most numbers are plain and between words; this check takes a tenth of the time.
_PLAIN_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_PLAIN_BEFORE = re.compile(r"[A-WYZa-wyz=:,;|)\]\"'>][ =:(\[{\"]")
_PLAIN_AFTER = re.compile(
    r"\Z|[;)\]}\"|]|, | (?!thou|tril|mil|mio|mrd|mn|bil|bn|la)[a-jl-wyz]|it/s"
)


class NoNumberError(Exception):
    """The captured text is no number; `cut`: it is a part of one."""

    def __init__(self, text: str, *, cut: bool = False) -> None:
        super().__init__(text)
        self.cut = cut


def group_of(match: Match[str]) -> int:
    """Return the group `number` of a match, or else its only group."""
    return match.re.groupindex.get(NUMBER, 1)


def number_of(match: Match[str], group: int | None = None, *, percent: bool = False) -> float:
    """Return the number in a group of a match, `group_of(match)` by default.

    With `percent`, a percent sign may follow the group. Raises NoNumberError.
    """
    group = group_of(match) if group is None else group
    text = match.group(group)
    if text and _is_plain(match, text, group):
        return float(text)
    if text is None:
        raise NoNumberError(f"nothing in {_shown(match, *match.span())}")
    start, end = match.span(group)
    start += len(text) - len(text.lstrip())
    text = text.strip()
    line, end = match.string, start + len(text)
    if percent and _PERCENT.match(plain(line[end : end + 2])):
        line = line[:end]
    if text and is_part(line, start, end):
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


def _is_plain(match: Match[str], text: str, group: int) -> bool:
    line, (start, end) = match.string, match.span(group)
    return bool(
        _PLAIN_NUMBER.fullmatch(text)
        and (start == 0 or _PLAIN_BEFORE.fullmatch(line, max(0, start - 2), start))
        and _PLAIN_AFTER.match(line, end)
    )


def rate_of(match: Match[str]) -> float:
    """Return the finite, non-negative number in a match's group. Raises NoNumberError."""
    rate = number_of(match)
    if 0 <= rate < math.inf:
        return rate
    raise NoNumberError(f"{match.group(group_of(match)).strip()}, which is not a throughput")


def record(rate: float, at: float) -> str:
    """Return the line of printed.jsonl for a throughput (docs/run-folder.md)."""
    return f'{{"kind": "printed", "samples_per_second": {rate!r}, "at": {at!r}}}\n'


def refused(match: Match[str], at: float, **metric: str) -> str:
    """Return the line of printed.jsonl for an unreadable match; `metric` has its `name`."""
    text = match.group(0)[:LONGEST_TEXT]
    return json.dumps({"kind": "refused", **metric, "text": text, "at": at}) + "\n"


def unsearched(characters: int, at: float) -> str:
    """Return the line of printed.jsonl for an output line that is too long to search."""
    return json.dumps({"kind": "unsearched", "characters": characters, "at": at}) + "\n"


def _shown(match: Match[str], start: int, end: int) -> str:
    words = match.string[max(0, start - _AROUND) : end + _AROUND].split()
    return repr(" ".join(words))
