"""Renders lines as a terminal shows them, and finds literal text that a pattern requires."""

from __future__ import annotations

import re
from typing import Any, Iterable, Iterator, List, Pattern

_STRING = r"(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"
_CONTROL = r"(?:\x1b\[|\x9b)(?P<numbers>[0-?]*)[ -/]*(?P<final>[@-~])"
_ESCAPES = re.compile(rf"{_STRING}|{_CONTROL}|\x1b[ -/]*(?P<short>[0-~])")
_UNSEEN = re.compile(
    "[\x00-\x07\x0e-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]"
)
_DIVIDED = re.compile("[\r\n\x0b\x0c]")
_BACKSPACES = re.compile("\b+")
_MOVING = "ABEFGHdfsu"
_MOST_STEPS = 255
_CONTROLS = bytes([*range(9), *range(11, 32), 127])
_COLOUR = re.compile(rb"\x1b\[[0-9;:]*m")


def shown(line: str) -> list[str]:
    """Return the successive texts that a terminal shows for a line of output.

    A carriage return or another cursor movement begins the next text, as do backspaces to the start of
    the text. Other backspaces overwrite characters.
    """
    return [
        _UNSEEN.sub("", text)
        for part in _DIVIDED.split(_ESCAPES.sub(_as_text, line))
        for text in _overwritten(part)
    ]


def _as_text(found: re.Match[str]) -> str:
    """Replace an escape sequence by equivalent characters; by nothing if it moves nothing."""
    final, numbers = found["final"], found["numbers"] or ""
    if final in ("C", "D"):
        steps = min(int(numbers) if numbers.isdigit() else 1, _MOST_STEPS)
        return (" " if final == "C" else "\b") * steps
    erases_all = final in ("J", "K") and numbers not in ("", "0")
    is_away = (final and final in _MOVING) or found["short"] in ("8", "c", "D", "E", "M")
    return "\r" if erases_all or is_away else ""


def _overwritten(text: str) -> list[str]:
    """Apply backspaces; return the texts before each return to the start, and the last one."""
    texts: list[str] = []
    here: list[str] = []
    place = begin = 0
    for back in _BACKSPACES.finditer(text):
        piece, steps = text[begin : back.start()], len(back[0])
        here[place : place + len(piece)] = piece
        place, begin = max(0, place + len(piece) - steps), back.end()
        if place == 0 and steps > 1:
            texts.append("".join(here))
            here = []
    here[place : place + len(text) - begin] = text[begin:]
    return [*texts, "".join(here)]


def texts_with(needed: bytes, lines: list[bytes]) -> Iterator[str]:
    """Yield the texts of a batch of lines; may skip those without the `needed` bytes."""
    text = b"".join(lines)
    has_controls = _has_controls(text)
    if has_controls and b"\x1b" in text:
        text = _COLOUR.sub(b"", text)
        lines, has_controls = text.splitlines(), _has_controls(text)
    if needed not in text and not has_controls:
        return
    for line in lines:
        if has_controls and _has_controls(line):
            yield from shown(line.decode("utf-8", "replace").rstrip("\n"))
        elif needed in line:
            found = line.decode("utf-8", "replace").rstrip("\n")
            yield from (found,) if found.isascii() else shown(found)


def _has_controls(text: bytes) -> bool:
    return len(text.translate(None, _CONTROLS)) < len(text)


try:
    from re import _parser as parser  # type: ignore[attr-defined]
except ImportError:
    import sre_parse as parser


def needed_text(pattern: Pattern[str]) -> bytes:
    """Return the longest literal text that all matches contain; empty if unknown."""
    if pattern.flags & re.IGNORECASE:
        return b""
    try:
        runs = _runs(parser.parse(pattern.pattern, pattern.flags))
    except Exception:  # another Python's parser may differ: then no line is skipped
        return b""
    texts = (run for run in runs if run.isascii() and run.isprintable())
    return max(texts, key=len, default="").encode("ascii")


def _runs(parts: Iterable[Any]) -> List[str]:
    """Return literal texts that all matches contain."""
    runs, here = [], ""
    for operation, argument in parts:
        name = str(operation)
        if name == "LITERAL":
            here += chr(argument)
            continue
        runs.append(here)
        here = ""
        if name == "SUBPATTERN" and not argument[1]:
            runs += _runs(argument[-1])
        elif name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT") and argument[0] > 0:
            runs += _runs(argument[2])
    return [run for run in (*runs, here) if run]
