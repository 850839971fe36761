"""Say which files of `/workloads` a run's program is made of, and name the content of each by a digest.

The driver compares what it finds with what claim.py found when a run began: what was measured with another
program is not of what is asked for. These files count:

* each that the command or a variable names; of a folder that they name, programs and settings (`SUFFIXES`);
* of a Python program, the modules and packages beside it that it imports;
* of a program or settings, others of these that it names: by their path, or beside it by their name.

What a program may write itself, as JSON beside it, counts only where the command names it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
from typing import Any, Iterable, Iterator, Mapping

WORKLOADS = "/workloads"
SUFFIXES = (".py", ".sh", ".yaml", ".yml", ".toml", ".cfg", ".ini")
MOST_BYTES = 1 << 20
"""Of a file that is read; of a longer one, the size alone is noted."""
MOST_FILES = 4096

_IMPORT = re.compile(r"^[ \t]*(?:from|import)[ \t]+(.+)", re.MULTILINE)
_NAME = re.compile(r"[^\W\d]\w*")
_FILE_NAME = re.compile(r"[\w.-]+")
_END_OF_PATH = re.compile(r"[\s:;,'\"=&|()<>]")


def programs_of(run: Mapping[str, Any], workloads: str) -> dict[str, str]:
    """Return what `program_digests` does, of the run that a run.json describes."""
    command, variables = run.get("command"), run.get("rank_environment")
    words = [
        *(command if isinstance(command, list) else ()),
        *(variables.values() if isinstance(variables, dict) else ()),
    ]
    return program_digests([word for word in words if isinstance(word, str)], workloads)


def program_digests(words: Iterable[str], workloads: str) -> dict[str, str]:
    """Return digests of a program's files by their paths as a container has them, in order.

    Args:
        words: the command and the values of the variables.
        workloads: the folder that is `/workloads` in a container; without one, words name it itself.
    """
    found: dict[str, str] = {}
    waiting = [
        (path, os.path.dirname(path))
        for word in words
        for named in _named(word, workloads)
        for path in _files_of(named)
    ]
    while waiting and len(found) < MOST_FILES:
        path, top = waiting.pop()
        name = _shown(WORKLOADS + path[len(workloads) :])
        content = None if name in found else _read(path)
        if content is None:
            continue
        found[name] = content if isinstance(content, str) else _digest(content)
        if isinstance(content, bytes) and path.endswith(SUFFIXES):
            text = content.decode("utf-8", "replace")
            named = [each for each in _named(text, workloads) if each.endswith(SUFFIXES)]
            waiting += [(each, os.path.dirname(each)) for each in named]
            waiting += [(each, top) for each in _beside(path, text, top)]
    return dict(sorted(found.items()))


def _shown(path: str) -> str:
    """Return a path as a text in one line; of a name that is none, what can be shown."""
    return "".join(each if each.isprintable() else "?" for each in path)


def _named(text: str, workloads: str) -> Iterator[str]:
    """Yield paths below `workloads` that a text names, as they are in a container or on the host."""
    for root in sorted({WORKLOADS, workloads}):
        for part in re.split(rf"(?<![\w./-]){re.escape(root)}", text)[1:]:
            rest = _END_OF_PATH.split(part, 1)[0]
            # A path of the host may hold anything; a word that is a path is taken whole.
            whole = part if part.startswith("/") and os.path.isfile(workloads + part) else rest
            if whole and not whole.startswith("/"):
                continue  # /workloads-of-another
            path = os.path.normpath(workloads + whole)
            if path == workloads or path.startswith(workloads + "/"):
                yield path


def _files_of(path: str, suffixes: tuple[str, ...] = SUFFIXES) -> Iterator[str]:
    """Yield the path itself, or of a folder the files in it of these suffixes, without hidden ones."""
    if not os.path.isdir(path):
        yield path
        return
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(each for each in folders if each[0] != "." and each != "__pycache__")
        for name in sorted(names):
            if name.endswith(suffixes) and name[0] != ".":
                yield os.path.join(folder, name)


def _beside(path: str, text: str, top: str) -> Iterator[str]:
    """Yield what is beside a program and named or imported in it; modules also from folders up to `top`."""
    folder = os.path.dirname(path)
    files = {name for name in _FILE_NAME.findall(text) if name.endswith(SUFFIXES)}
    with contextlib.suppress(OSError):
        names = sorted(name for name in os.listdir(folder) if name in files)
        yield from (os.path.join(folder, name) for name in names)
    lines = _IMPORT.findall(text) if path.endswith(".py") else []
    modules = sorted({name for line in lines for name in _NAME.findall(line)})
    while modules:
        for name in modules:
            yield from _modules_of(os.path.join(folder, name))
        if folder == top or not folder.startswith(top + "/"):
            break
        folder = os.path.dirname(folder)


def _modules_of(name: str) -> Iterator[str]:
    """Yield the file of a module, or all those of a package; nothing where it is neither."""
    if os.path.isfile(name + ".py"):
        yield name + ".py"
    if os.path.isdir(name):
        yield from _files_of(name, (".py",))


def _read(path: str) -> bytes | str | None:
    """Return the content of a regular file, or of a long one its size in words; None for what is none."""
    try:
        # The user's own folder: a link in it is meant.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            about = os.fstat(descriptor)
            if not stat.S_ISREG(about.st_mode):
                return None
            if about.st_size > MOST_BYTES:
                return f"{about.st_size} bytes"
            return file.read(MOST_BYTES)
    except OSError:
        return None


def _digest(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


def changed(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return the files that differ or are gone; of what is new alone, nothing of before made use."""
    return sorted(name for name in before if before[name] != now.get(name))
