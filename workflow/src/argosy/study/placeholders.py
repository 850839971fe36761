"""Placeholders in a command and in the values of variables: `{nodes}` is the run's number of nodes.

Only names that are known are replaced, so braces of JSON, awk, Python and shells stay as they are.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

_NAME = r"[A-Za-z_][A-Za-z0-9_.-]*"
_PLACEHOLDER = re.compile(rf"\{{\{{({_NAME})\}}\}}|(?<!\$)\{{({_NAME})\}}")
"""A name in doubled braces, which is a literal, or a placeholder; `${name}` is a variable of a shell."""


def filled(words: Iterable[str], values: Mapping[str, str]) -> tuple[str, ...]:
    """Return the words with each `{name}` of `values` replaced, and `{{name}}` of one as `{name}`.

    All else is left alone, also a name that is not in `values`.
    """

    def value(found: re.Match[str]) -> str:
        literal, name = found.groups()
        if literal in values:
            return f"{{{literal}}}"
        return values.get(name, found[0])

    return tuple(_PLACEHOLDER.sub(value, word) for word in words)


def names_in(words: Iterable[str]) -> Iterator[str]:
    """Yield the names of all that `filled` would look up."""
    for word in words:
        yield from (name for _, name in _PLACEHOLDER.findall(word) if name)
