"""Writing files so that a reader sees the old content or the new one, never half of either."""

import json
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from argosy_common.errors import ArgosyError
from argosy_common.reading import read_text

UMASK_VARIABLE = "ARGOSY_UMASK"
PRIVATE = 0o077


def umask() -> int:
    """Return the permissions that new files of results are without: ARGOSY_UMASK, or all but the user's.

    Raises:
        ArgosyError: for a value that is none, keeps the user out, or lets others change batch scripts.
    """
    text = os.environ.get(UMASK_VARIABLE, "")
    if not text:
        return PRIVATE
    if not re.fullmatch(r"0?0[0-7][0-7]", text):
        raise ArgosyError(
            f"{UMASK_VARIABLE}={text}: not an octal umask", "set 027 to let your group read results"
        )
    if int(text, 8) & 0o022 != 0o022:
        raise ArgosyError(
            f"{UMASK_VARIABLE}={text}: others could change your batch scripts",
            "set 027 to let your group read results, 022 to let everybody",
        )
    return int(text, 8)


def apply_umask() -> None:
    """Let this process and its children make files as ARGOSY_UMASK says, or else none that others may
    write to: what lies in the store, in scripts and environments runs as this user."""
    before = os.umask(PRIVATE)
    os.umask(umask() if os.environ.get(UMASK_VARIABLE) else before | 0o022)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`, which replaces `path` if the block succeeds.

    Others may share the file system: only the user can read the file, or whom ARGOSY_UMASK allows to.
    """
    mode = 0o666 & ~umask()
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.fchmod(descriptor, mode)
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
    return [Path(line) for line in read_text(path, path.parent).splitlines()]


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
    """Return `value` as indented JSON with a final newline.

    Half a surrogate, which no UTF-8 has and a stranger's JSON may have, stays the escape that it was.
    """
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    return text.encode("utf-8", "backslashreplace").decode()
