"""Detects patterns that match two kinds of numbers, such as rates of training and of evaluation."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Dict, Iterator, List, Match, NamedTuple, Sequence, Tuple

from .printed_numbers import group_of

_LEAST_RATIO = 1.25
"""Smallest ratio between medians of two kinds: nearer groups hardly change a mean."""
_APART = 0.95
"""Smallest share of each group's numbers on its own side of the middle between the medians."""
_SLOW_START = 0.4
"""Largest share of slow numbers before all others that may be a warm-up."""
_FEWEST_LINES = 3
"""Fewest lines for two kinds that differ only by name or place."""
_IN_TURN = 0.8
"""Smallest number of changes between two names per number; 1: they alternate strictly."""
_MOST_FORMS = 64
_MOST_NUMBERS = 300
_MOST_TEXTS = 1000
_LONGEST_TEXT = 60

_WORD = re.compile(r"[^\W_]+")
_DIGITS = re.compile(r"\d+")
# Words that vary from line to line and name no number.
_NO_NAMES = re.compile(
    r"a|an|and|at|by|for|from|in|is|now|of|on|or|per|so|the|then|to|was|with|yet"
    r"|days?|hours?|hrs?|min(?:ute)?s?|sec(?:ond)?s?|ms|us|ns|eta|left"
    r"|mon|tue|wed|thu|fri|sat|sun|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|am|pm|utc|cet"
    r"|debug|info|warn(?:ing)?|error|critical|notice|nan|inf|none|null|true|false|yes|no|[kmgt]i?b"
)

Words = Tuple[str, ...]
Feature = Tuple[object, ...]


class _Form:
    """Numbers with the same words around them."""

    def __init__(self, place: int, before: Words, after: Words, text: str) -> None:
        self.text = text
        self.name = before[-1] if before else ""
        self.place = place
        self.features: set[Feature] = {("place", place)}
        self.features |= {("before", word) for word in before} | {("after", word) for word in after}
        self.numbers: List[float] = []
        self.count, self.total = 0, 0.0
        self.first, self.last = -1, -1

    def note(self, number: float, place: int) -> None:
        self.first = place if self.first < 0 else self.first
        self.last = place
        self.count += 1
        self.total += number
        if len(self.numbers) < _MOST_NUMBERS:
            self.numbers.append(number)


class Group(NamedTuple):
    """Numbers of one kind: their mean, their count, and the text of the first."""

    mean: float
    numbers: int
    text: str

    def __str__(self) -> str:
        numbers = "1 number" if self.numbers == 1 else f"{self.numbers} numbers, mean"
        return f"{self.text!r} ({numbers} {self.mean:.6g})"


class NumberKinds:
    """Collects the numbers of a run with the words around them."""

    def __init__(self) -> None:
        self._forms: Dict[Tuple[int, Words, Words], _Form] = {}
        self._named: List[str] = []
        self._lines: Dict[int, int] = {}
        self._newest, self._changes = "", 0
        self._noted = 0

    def note(self, matches: Sequence[Tuple[Match[str], float]]) -> None:
        """Add the numbers of one line, in order."""
        begin, last = 0, len(matches) - 1
        self._lines[len(matches)] = self._lines.get(len(matches), 0) + 1
        names = set()
        for place, (match, number) in enumerate(matches):
            start, end = match.span(group_of(match))
            until = len(match.string) if place == last else matches[place + 1][0].start()
            before = _words(_DIGITS.sub("0", match.string[begin:start]))
            after = _words(_DIGITS.sub("0", match.string[end:until]))
            form = self._form((place, before, after), match)
            begin = match.end()
            self._noted += 1
            if form and number > 0:
                form.note(number, self._noted)
                self._changes += bool(self._newest) and form.name != self._newest
                self._newest = form.name
                names.add(form.name)
        if len(names - {""}) > 1 and not self._named:
            self._named = sorted(names - {""})[:2]

    def groups(self) -> List[Group]:
        """Return the two kinds of numbers, the smaller first; empty if there is one kind."""
        every = [form for form in self._forms.values() if form.count]
        forms = _after_slow_start(every)
        splits = [each for each in _splits(forms) if not any(map(self._is_first, each))]
        found = [pair for each in splits if (pair := _apart(*each))]
        if found:
            low, high = max(found, key=lambda pair: pair[1].mean / pair[0].mean)
            return [low, high]
        # Names and places count even if the numbers are close.
        return self._in_one_line(every) or self._in_turn(every)

    def _is_first(self, forms: Sequence[_Form]) -> bool:
        """Return whether a form is only the first number, such as the first state of a progress bar."""
        [form, *others] = forms
        return not others and form.last == 1 and self._noted > _FEWEST_LINES

    def _in_one_line(self, forms: Sequence[_Form]) -> List[Group]:
        """Return two kinds by two names in one line, or by an equal count of numbers in each line."""
        if self._named:
            return sorted(
                _group([form for form in forms if form.name == name]) for name in self._named
            )
        [(several, lines)] = self._lines.items() if len(self._lines) == 1 else [(1, 0)]
        if several < 2 or lines < _FEWEST_LINES:
            return []
        first = [form for form in forms if form.place == 0]
        rest = [form for form in forms if form.place]
        return sorted(map(_group, (first, rest))) if first and rest else []

    def _in_turn(self, forms: Sequence[_Form]) -> List[Group]:
        """Return two kinds by two names that mostly alternate."""
        names = sorted({form.name for form in forms})
        if len(names) != 2:
            return []
        groups = [_group([form for form in forms if form.name == name]) for name in names]
        numbers = [group.numbers for group in groups]
        in_turn = min(numbers) >= _FEWEST_LINES and self._changes >= _IN_TURN * sum(numbers)
        return sorted(groups) if in_turn else []

    def _form(self, key: Tuple[int, Words, Words], match: Match[str]) -> _Form | None:
        """Return the form of a number; beyond `_MOST_FORMS`, only the adjacent words decide."""
        if key not in self._forms and len(self._forms) >= _MOST_FORMS:
            place, before, after = key
            key = place, before[-1:], after[:1]
        form = self._forms.get(key)
        if form is None and len(self._forms) < 2 * _MOST_FORMS:
            form = self._forms[key] = _Form(*key, _text(match))
        return form


def _splits(forms: Sequence[_Form]) -> Iterator[Tuple[List[_Form], List[_Form]]]:
    """Yield the forms with and without each feature that some of them have."""
    for feature in sorted({feature for form in forms for feature in form.features}, key=str):
        have = [form for form in forms if feature in form.features]
        rest = [form for form in forms if feature not in form.features]
        if rest:
            yield have, rest


@lru_cache(maxsize=_MOST_TEXTS)
def _words(text: str) -> Words:
    """Return the words of a text, whose numbers are 0, that may name a number."""
    found = (word.lower() for word in _WORD.findall(text) if not _DIGITS.search(word))
    return tuple(word for word in found if len(word) > 1 and not _NO_NAMES.fullmatch(word))


def _text(match: Match[str]) -> str:
    start, end = match.span(group_of(match))
    begin = max(0, start - _LONGEST_TEXT // 2)
    return " ".join(match.string[begin : end + _LONGEST_TEXT // 2].split())


def _group(forms: Sequence[_Form]) -> Group:
    count = sum(form.count for form in forms)
    first = min(forms, key=lambda form: form.first)
    return Group(sum(form.total for form in forms) / max(count, 1), count, first.text)


def _apart(one: Sequence[_Form], other: Sequence[_Form]) -> Tuple[Group, Group] | None:
    """Return two groups of forms, the lower first, if nearly all of their numbers are separate."""
    low, high = sorted((one, other), key=_median)
    below, above = _median(low), _median(high)
    if above < _LEAST_RATIO * below:
        return None
    middle = (below * above) ** 0.5
    under = [number < middle for form in low for number in form.numbers]
    over = [number > middle for form in high for number in form.numbers]
    if min(sum(under) / len(under), sum(over) / len(over)) < _APART:
        return None
    return _group(low), _group(high)


def _after_slow_start(forms: Sequence[_Form]) -> Sequence[_Form]:
    """Drop the forms of a slow start: a warm-up may have words of its own."""
    forms = sorted(forms, key=lambda form: form.first)
    of_all = sum(form.count for form in forms)
    for place in range(len(forms) - 1, 0, -1):
        head, rest = forms[:place], forms[place:]
        is_before = max(form.last for form in head) < rest[0].first
        is_short = sum(form.count for form in head) <= _SLOW_START * of_all
        slower = _median(rest) / _LEAST_RATIO
        if is_before and is_short and all(_median([form]) < slower for form in head):
            return rest
    return forms


def _median(forms: Sequence[_Form]) -> float:
    numbers = sorted(number for form in forms for number in form.numbers)
    return numbers[len(numbers) // 2]
