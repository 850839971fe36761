"""Package lists for an image: requirements, pyproject.toml, uv.lock and environment.yml.

Each file must be inside the project, with symbolic links resolved. It may list only packages of indexes and
addresses, since a build sees no other file of the project.
"""

import json
import os
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from argosy.study.conda import parse_environment
from argosy_common.errors import ArgosyError

UV_LOCK = "uv.lock"
CONDA = "conda.json"
"""Channels and packages of an environment.yml; pip's requirements follow in their own files."""
_PROJECT = "pyproject.toml"
_REQUIREMENTS = (".txt", ".in")
_ENVIRONMENTS = (".yml", ".yaml")
_KINDS = "requirements.txt, pyproject.toml, uv.lock or environment.yml"
_NOT_IN_NAMES = re.compile(r"[*?\[\]$\\\"]")
_OTHER_FILE = re.compile(
    r"(?:-r|--requirement|-c|--constraint)(?:[ \t]*=[ \t]*|[ \t]*)(?P<name>[^\s=].*)"
)
_LOCAL_OPTION = re.compile(r"(?:-e|--editable|-f|--find-links)[ \t=]*(?!.*://)")
_LOCAL_PATH = re.compile(
    r"[./]|file:|[^\s:@;]*(?:/|\.whl|\.zip|\.tar\.gz)(?=[\s;]|$)|[^\s:@;]+/|.*@\s*file:"
)
_COMMENT = re.compile(r"(?:^|\s)#.*$")


class Listed(NamedTuple):
    """A file for an image: its source in the project, and its text in the image."""

    source: Path
    text: str


def check_path(value: str) -> str:
    """Accept the path of a package list below the project's folder."""
    path = PurePosixPath(value)
    suffixes = _REQUIREMENTS + _ENVIRONMENTS
    if path.name not in (UV_LOCK, _PROJECT) and path.suffix not in suffixes:
        raise ValueError(f"is not a package list that Argosy reads: {_KINDS}")
    if path.is_absolute() or ".." in path.parts:
        raise ValueError("write its path below the project's folder, without '..'")
    if not value.isprintable() or _NOT_IN_NAMES.search(value):
        raise ValueError(
            "rename the file: its path has a character with a meaning in Containerfiles"
        )
    return value


def read_lists(project: Path, name: str) -> dict[str, Listed]:
    """Return package list `name` and the files it includes, by name in the image; the list comes first.

    Raises:
        ArgosyError: if a file is missing, outside the project, or refers to a local file or folder.
    """
    path = PurePosixPath(name)
    if path.name == UV_LOCK:
        names = (path, path.with_name(_PROJECT))
        return {
            each.name: Listed(project / each, _read(project, str(each), name)) for each in names
        }
    if path.name == _PROJECT:
        lines = _dependencies(name, _read(project, name, name))
        for line in lines:
            _check_line(name, line)
        return {"requirements.txt": Listed(project / name, "".join(f"{line}\n" for line in lines))}
    found: dict[str, Listed] = {}
    if path.suffix in _ENVIRONMENTS:
        _add_environment(project, os.path.normpath(name), name, found)
    else:
        _add_requirements(project, os.path.normpath(name), name, found)
    return found


def _add_environment(project: Path, name: str, where: str, found: dict[str, Listed]) -> None:
    environment = parse_environment(_read(project, name, where), name)
    packages = {"channels": environment.channels, "dependencies": environment.dependencies}
    found[CONDA] = Listed(project / name, json.dumps(packages))
    if environment.pip:
        text = "".join(f"{line}\n" for line in environment.pip)
        found[f"{name}.txt"] = Listed(project / name, text)
        for inner, line in _named(name, text):
            _add_requirements(project, inner, line, found)


def _add_requirements(project: Path, name: str, where: str, found: dict[str, Listed]) -> None:
    """Add a requirements file and the files that it includes, depth first."""
    waiting = [(name, where)]
    while waiting:
        name, where = waiting.pop()
        if name not in found:
            text = _read(project, name, where)
            found[name] = Listed(project / name, text)
            waiting += reversed(_named(name, text))


def _named(name: str, text: str) -> list[tuple[str, str]]:
    """Return the included files, each with its line for messages; check all other lines."""
    named = []
    for line in _lines(text):
        if other := _OTHER_FILE.fullmatch(line):
            inner = os.path.normpath(PurePosixPath(name).parent / other["name"].strip("'\""))
            if "://" in other["name"]:
                raise _error(
                    name, line, "its content may change unseen: copy the file into the project"
                )
            named.append((inner, f"{name}: {line}"))
        else:
            _check_line(name, line)
    return named


def _lines(text: str) -> Iterator[str]:
    """Yield requirement lines as pip does: joined, without comments."""
    for line in re.sub(r"\\\r?\n", "", text).splitlines():
        if kept := _COMMENT.sub("", line).strip():
            yield kept


def _check_line(name: str, line: str) -> None:
    if _LOCAL_OPTION.match(line) or (line[0] != "-" and _LOCAL_PATH.match(line)):
        raise _error(
            name,
            line,
            "a build sees no other files of the project: set PYTHONPATH: /workloads in environment for its "
            "modules, or write a Containerfile",
        )


def _error(name: str, line: str, hint: str) -> ArgosyError:
    return ArgosyError(f"{name}: {line[:200]!r} cannot be installed in an image", hint)


def _read(project: Path, name: str, where: str) -> str:
    """Return the text of a file inside the project, with symbolic links resolved."""
    path = project / name
    if PurePosixPath(name).is_absolute() or name == ".." or name.startswith("../"):
        raise ArgosyError(f"{where}: leads out of the project", "copy the file into the project")
    try:
        if not path.resolve().is_relative_to(project.resolve()):
            raise ArgosyError(
                f"{where}: {name} leads out of the project", "copy the file into the project"
            )
        if path.exists() and not path.is_file():
            raise ArgosyError(f"{where}: {name} is not a file")
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ArgosyError(
            f"{where}: there is no file {name}", "write it, or correct its name"
        ) from None
    except UnicodeDecodeError:
        raise ArgosyError(f"{where}: {name} is not UTF-8 text") from None
    # Links may form a loop, and a name may contain a NUL.
    except (OSError, RuntimeError, ValueError) as problem:
        why = getattr(problem, "strerror", None) or problem
        raise ArgosyError(f"{where}: {name}: {why}") from None


def _dependencies(name: str, text: str) -> list[str]:
    """Return `project.dependencies` of a pyproject.toml."""
    try:
        content: dict[str, Any] = tomllib.loads(text)
    except RecursionError:
        raise ArgosyError(f"{name}: is nested too deeply") from None
    # Invalid TOML, or a number with thousands of digits.
    except ValueError as problem:
        raise ArgosyError(f"{name}: {problem}") from None
    project = content.get("project")
    lines = project.get("dependencies") if isinstance(project, dict) else None
    if not (lines and isinstance(lines, list)) or not all(
        isinstance(line, str) and line.isprintable() for line in lines
    ):
        raise ArgosyError(
            f"{name}: project.dependencies lists no packages",
            "list them, or write a requirements.txt",
        )
    return [line.strip() for line in lines]
