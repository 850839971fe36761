"""Writes a site's file as YAML in which each value says where it comes from."""

import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

import yaml

from argosy.probe.site_draft import SiteDraft
from argosy.probe.values import Draft, Value

WIDTH = 110


def site_text(draft: SiteDraft, head: Sequence[str]) -> str:
    """Return the text of a site.yaml; `head` are its first lines, without their marks."""
    lines = [*_comments(head, 0), *_lines(draft.keys, 0)]
    if draft.unknown:
        lines += ["", *_comments(["Not found:", *(f"- {each}" for each in draft.unknown)], 0)]
    if draft.notes:
        lines += ["", *_comments(["Worth knowing:", *(f"- {each}" for each in draft.notes)], 0)]
    return "\n".join(lines) + "\n"


def plain(keys: Draft) -> dict[str, Any]:
    """Return the keys with their bare values."""
    return {
        key: each.value if isinstance(each, Value) else plain(each) for key, each in keys.items()
    }


def _lines(keys: Draft, depth: int) -> Iterator[str]:
    for key, each in keys.items():
        if isinstance(each, Value):
            if each.origin:
                yield from _comments([each.origin], depth)
            yield f"{'  ' * depth}{_inline(key)}: {_inline(each.value)}"
        elif each:
            yield f"{'  ' * depth}{_inline(key)}:"
            yield from _lines(each, depth + 1)


def _inline(value: Any) -> str:
    """Return a value as YAML in one line."""
    text = yaml.safe_dump(
        value, default_flow_style=True, sort_keys=False, width=10_000, allow_unicode=True
    )
    return text.removesuffix("...\n").strip()


def _comments(texts: Sequence[str], depth: int) -> Iterator[str]:
    """Yield comments; what others wrote cannot leave them, as each line gets its mark."""
    indent = "  " * depth + "# "
    for text in texts:
        shown = "".join(letter if letter.isprintable() else " " for letter in text)
        yield from textwrap.wrap(
            shown,
            WIDTH,
            initial_indent=indent,
            subsequent_indent=indent + ("  " if shown.startswith("- ") else ""),
            break_long_words=False,
            break_on_hyphens=False,
        )
