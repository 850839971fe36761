"""JSON of strangers: something in it is of another kind, missing, or meant to harm."""

import copy
import json
import math
import random
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HARMFUL = '<img src="x" onerror="alert(1)">'
ESCAPE = "\x1b[31mred\u202e"
VALUES: tuple[Any, ...] = (
    *(None, True, -1, 0, 1e308, -1e308, math.nan, math.inf, 10**30),
    *("", HARMFUL, ESCAPE, "a" * 100_000, "../../../etc/passwd", "/etc/passwd", "=cmd()", "\n\n"),
    *("\ud800", [], {}, [1] * 1000, {"a": {"b": 1}}, [[[[[]]]]]),
)
Place = tuple[str | int, ...]


def garbled(text: str, chance: random.Random) -> str:
    """A JSON text, of which one to five values are others, or gone."""
    value = json.loads(text)
    for _ in range(chance.choice((1, 1, 2, 5))):
        places = [place for place in _places(value) if place]
        if not places:
            break
        *before, last = chance.choice(places)
        inner = value
        for name in before:
            inner = inner[name]
        if chance.random() < 0.8:
            inner[last] = copy.deepcopy(chance.choice(VALUES))
        else:
            del inner[last]
    return json.dumps(value)


def garbled_lines(text: str, chance: random.Random) -> str:
    """JSON Lines, of which up to fifty are garbled."""
    lines = text.splitlines()
    for place in chance.choices(range(len(lines)), k=chance.choice((1, 5, 50)) if lines else 0):
        lines[place] = garbled(lines[place], chance)
    return "".join(f"{line}\n" for line in lines)


def garbled_text(text: str, pieces: Sequence[str], chance: random.Random) -> str:
    """A text, of which some lines or pieces of lines are gone, doubled, or exchanged for others."""
    lines = text.splitlines(keepends=True)
    for _ in range(chance.choice((1, 1, 2, 5, 20))):
        place = chance.randrange(len(lines)) if lines else 0
        line = lines[place] if lines else ""
        begin, size = chance.randrange(len(line) + 1), chance.choice((0, 0, 1, 3, 10, 100))
        if chance.random() < 0.5 and (words := list(re.finditer(r"\S+", line))):
            word = chance.choice(words)
            begin, size = word.start(), len(word.group())
        piece = chance.choice((*pieces, line, chance.choice(lines) if lines else ""))
        piece = (piece * chance.choice((1, 1, 1, 1, 1, 1, 2, 400, 1500)))[:100_000]
        lines[place : place + 1] = [line[:begin] + piece + line[begin + size :]]
        if chance.random() < 0.1:
            del lines[place : place + chance.choice((1, 1, 5))]
    return "".join(lines)


def garbled_rows(content: bytes, chance: random.Random) -> bytes:
    """Bytes, of which some are others, gone or added anywhere."""
    rows = bytearray(content)
    for _ in range(chance.choice((1, 3, 30)) if rows else 0):
        begin, size = chance.randrange(len(rows) or 1), chance.choice((0, 1, 8, 96))
        rows[begin : begin + size] = chance.randbytes(chance.choice((0, 1, 8, 96)))
    return bytes(rows)


@contextmanager
def some_garbled(files: Sequence[Path], chance: random.Random) -> Iterator[None]:
    """Some of the files are garbled meanwhile: JSON in its values, others in their bytes."""
    chosen = chance.sample(files, min(len(files), chance.choice((1, 1, 3, 10, 30))))
    before = {path: path.read_bytes() for path in chosen}
    for path, content in before.items():
        if path.suffix not in (".json", ".jsonl"):
            path.write_bytes(garbled_rows(content, chance))
            continue
        change = garbled_lines if path.suffix == ".jsonl" else garbled
        path.write_text(change(content.decode(), chance))
    try:
        yield
    finally:
        for path, content in before.items():
            path.write_bytes(content)


def _places(value: Any, place: Place = ()) -> Iterator[Place]:
    yield place
    if isinstance(value, dict | list):
        for name, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _places(inner, (*place, name))
