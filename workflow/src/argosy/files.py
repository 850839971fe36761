"""Writing files so that a reader sees the old content or the new one, never half of either."""

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary path beside `path`; what is written there replaces `path` when all went well.

    The file keeps the private mode of a temporary file (0600), as others may share the file system.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(descriptor)
    temporary = Path(name)
    try:
        yield temporary
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str) -> None:
    """Write `text` to `path` atomically (UTF-8)."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def read_paths(path: Path) -> list[Path]:
    """Return the paths that a file lists, one on each line: a command line has no room for thousands."""
    return [Path(line) for line in path.read_text(encoding="utf-8").splitlines()]


def write_json(path: Path, value: Any) -> None:
    """Write `value` as indented JSON with a final newline, atomically."""
    write_text(path, json_text(value))


def write_json_if_changed(path: Path, value: Any) -> bool:
    """Leave a file alone that holds `value` already; whether it was written."""
    text = json_text(value)
    if path.is_file() and path.read_bytes() == text.encode():
        return False
    write_text(path, text)
    return True


def json_text(value: Any) -> str:
    """Return `value` as indented JSON with a final newline."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
