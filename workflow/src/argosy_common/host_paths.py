"""Absolute host paths in users' files. Each job expands their variables; no shell evaluates them."""

import re
import shlex
from collections.abc import Iterator, Mapping

_VARIABLE = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\})", re.ASCII)


def host_path(value: str) -> str:
    """Check that a path is absolute, and replace `~` by `$HOME`; raise ValueError."""
    path = re.sub("^~(?=/|$)", "$HOME", value)
    rest = _VARIABLE.sub("", path)
    if not path.startswith(("/", "$")) or "$" in rest or not path.isprintable():
        raise ValueError(
            "write an absolute path, which may begin with ~ or with a variable such as $SCRATCH"
        )
    return path


def variables(path: str) -> list[str]:
    """Return the names of the variables in a path."""
    return sorted({found[1] or found[2] for found in _VARIABLE.finditer(path)})


def expanded(path: str, environment: Mapping[str, str]) -> str | None:
    """Expand the variables in a path; None if one is unset or empty."""
    if not all(map(environment.get, variables(path))):
        return None
    return _VARIABLE.sub(lambda found: environment[found[1] or found[2]], path)


def shell_word(path: str) -> str:
    """Quote a path as one shell word in which only its variables expand."""
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
