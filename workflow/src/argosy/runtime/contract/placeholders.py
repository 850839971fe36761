"""Placeholders in commands, values of variables and launchers: `{nodes}` is the run's number of nodes.

Only known names are replaced, so other braces, as in JSON, awk, Python and shells, stay unchanged.
"""

from __future__ import annotations

import contextlib
import re
from string import Formatter
from typing import Iterable, Iterator, Mapping

_NAME = r"[A-Za-z_][A-Za-z0-9_.-]*"
_PLACEHOLDER = re.compile(rf"\{{\{{({_NAME})\}}\}}|(?<!\$)\{{({_NAME})\}}")
"""A literal name in doubled braces, or a placeholder; `${name}` is a shell variable."""


def filled(words: Iterable[str], values: Mapping[str, str]) -> tuple[str, ...]:
    """Return the words with each `{name}` of `values` replaced, and each `{{name}}` as `{name}`.

    Names that are not in `values` stay unchanged.
    """

    def value(found: re.Match[str]) -> str:
        literal, name = found.groups()
        if literal in values:
            return f"{{{literal}}}"
        return values.get(name, found[0])

    return tuple(_PLACEHOLDER.sub(value, word) for word in words)


def names_in(words: Iterable[str]) -> Iterator[str]:
    """Yield the names of all placeholders."""
    for word in words:
        yield from (name for _, name in _PLACEHOLDER.findall(word) if name)


FIELDS = (
    *("rank", "size", "local_rank", "local_size", "node", "nodes", "ranks_per_node"),
    *("head_address", "head_port", "node_address", "node_addresses", "interface"),
    *("rank_port", "rank_endpoints", "rank_endpoints_json"),
    *("rendezvous_address", "rendezvous_port", "pmi", "agent_store", "timeline", "secret", "tmp"),
)
"""Placeholders in a launcher's texts that the agent fills in."""
PORT = re.compile(r"([a-z][a-z0-9_]*)_port")
"""Another such placeholder: a port that the head reserves under this name."""


def as_format(text: str) -> str:
    """Return a launcher's text as a format string over its fields, for `str.format_map`."""
    parts, place = [], 0
    for found in _PLACEHOLDER.finditer(text):
        literal, name = found.groups()
        # Fields have the same syntax in a format string.
        part = found[0] if is_field(literal or name) else _doubled(found[0])
        parts += [_doubled(text[place : found.start()]), part]
        place = found.end()
    return "".join([*parts, _doubled(text[place:])])


def is_field(name: str) -> bool:
    """Return whether the agent can fill in a placeholder."""
    return name in FIELDS or PORT.fullmatch(name) is not None


def _doubled(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def fields_in(formats: Iterable[str]) -> set[str]:
    """Return the fields of format strings; malformed ones are skipped."""
    found = set()
    for text in formats:
        with contextlib.suppress(ValueError):
            found |= {name for _, name, _, _ in Formatter().parse(text) if name}
    return found
