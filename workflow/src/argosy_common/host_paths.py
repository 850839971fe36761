"""Paths of the host in users' files: absolute ones, whose variables each job fills in and no shell runs."""

import re
import shlex
from collections.abc import Iterator, Mapping

_VARIABLE = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\})", re.ASCII)


def host_path(value: str) -> str:
    """Accept an absolute path, with `$HOME` for `~`; raises ValueError."""
    path = re.sub("^~(?=/|$)", "$HOME", value)
    rest = _VARIABLE.sub("", path)
    if not path.startswith(("/", "$")) or "$" in rest or not path.isprintable():
        raise ValueError(
            "write an absolute path, which may begin with ~ or with a variable such as $SCRATCH"
        )
    return path


def variables(path: str) -> list[str]:
    """Return the names of a path's variables."""
    return sorted({found[1] or found[2] for found in _VARIABLE.finditer(path)})


def expanded(path: str, environment: Mapping[str, str]) -> str | None:
    """Return a path with the values of its variables; None if one is not set or empty."""
    if not all(map(environment.get, variables(path))):
        return None
    return _VARIABLE.sub(lambda found: environment[found[1] or found[2]], path)


def shell_word(path: str) -> str:
    """Return a path as one word of a script, in which the shell fills in its variables alone."""
    return "".join(_shell_parts(path))


def _shell_parts(path: str) -> Iterator[str]:
    place = 0
    for found in _VARIABLE.finditer(path):
        if place < found.start():
            yield shlex.quote(path[place : found.start()])
        yield f'"${{{found[1] or found[2]}}}"'
        place = found.end()
    if place < len(path):
        yield shlex.quote(path[place:])
