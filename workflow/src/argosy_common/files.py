"""Write files atomically, with the permissions that ARGOSY_UMASK sets."""

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
    """Return the umask for new result files: ARGOSY_UMASK, by default 077.

    Raises:
        ArgosyError: if it is not octal, denies the user access, or lets others write.
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
    """Set the umask of this process: ARGOSY_UMASK, or the current one without write access for others.

    Files in the store, scripts and environments run as this user, so others must not change them.
    """
    before = os.umask(PRIVATE)
    os.umask(umask() if os.environ.get(UMASK_VARIABLE) else before | 0o022)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path that replaces `path` if the block succeeds.

    ARGOSY_UMASK sets the file's mode; without it only the user can read the file.
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
        try:
            temporary.write_text(text, encoding="utf-8")
        except OSError as problem:
            # The error of a full disk names no file.
            problem.filename = problem.filename or str(path)
            raise


def read_paths(path: Path) -> list[Path]:
    """Read a list of paths, one per line; a command line cannot hold thousands."""
    return [Path(line) for line in read_text(path, path.parent).splitlines()]


def write_json(path: Path, value: Any) -> None:
    """Write `value` as indented JSON with a final newline, atomically."""
    write_text(path, json_text(value))


def write_json_if_changed(path: Path, value: Any) -> bool:
    """Write `value` unless the file already holds it; return whether it was written."""
    text = json_text(value)
    if path.is_file() and path.read_bytes() == text.encode():
        return False
    write_text(path, text)
    return True


def json_text(value: Any) -> str:
    """Format `value` as indented JSON with a final newline; lone surrogates stay escaped."""
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    return text.encode("utf-8", "backslashreplace").decode()
