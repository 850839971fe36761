"""Finds the user's files of a run's program, and their digests.

The driver compares them with the digests that claim.py recorded, to detect outdated results. These files
count:

* files that the command, the launcher or a variable names; in a folder that they name and that has no
  such file, programs and settings (`SUFFIXES`), unless it has so many entries that it is data;
* files that imports of a Python program load from the user's folders (`python_imports.py`);
* programs and settings that another one names, by their path or by their name beside it.

The user's folders are `/workloads` in a container; in native runs the project and all folders but the
system's. Files that programs may write, such as JSON, count only if the command names them.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from typing import Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Set, Tuple, Union

from .contract.run import RunSpec
from .python_imports import (
    MOST_ENTRIES,
    Import,
    entries_of,
    load_module,
    loaded_files,
    read_source,
)

WORKLOADS = "/workloads"
PROGRAMS = (".py", ".sh")
SUFFIXES = (*PROGRAMS, ".yaml", ".yml", ".toml", ".cfg", ".ini")
MOST_BYTES = 1 << 20
"""Size up to which a file is read; of larger files, the size replaces the digest."""
MOST_FILES = 4096

_FILE_NAME = re.compile(r"[\w./-]+")
_FOLDER_OF_ITS_OWN = re.compile(r"""["']?(?:\$\([^()]*\)|\$?\{\w+\}|\$\w+)["']?/""")
"""Expressions for a program's own folder, before a name."""
_END_OF_WORD = re.compile(r"[\s:;,'\"=&|()<>]+")
MODULE = re.compile(r"(?:^|\s)-m[ =]?([^\W\d][\w.]*)")
_OF_THE_SYSTEM = ("/bin/", "/etc/", "/lib/", "/lib64/", "/proc/", "/sbin/", "/sys/", "/usr/")

Roots = Tuple[str, ...]
"""Folders in which Python looks for modules."""


class Program:
    """The program of a run, and its files.

    A file's name is its path in the container; in native runs, its path relative to the project.

    Args:
        command: the words of the command.
        variables: its environment.
        workloads: the project's folder that is `/workloads` in a container.
        is_native: whether it runs without a container.
    """

    def __init__(
        self,
        command: Iterable[str],
        variables: Mapping[str, str],
        workloads: str,
        *,
        is_native: bool,
    ) -> None:
        self.command = tuple(command)
        self.variables = tuple(variables.values())
        self.workloads = workloads
        # The working directory of native runs.
        self.project = _project_of(workloads) if is_native else ""
        self.path = tuple(each for word in self.variables for each in self._folders(word))
        """Folders that variables name, as PYTHONPATH does."""
        folders = (each for word in self.command for each in self._folders(word))
        self._named = (*folders, *self.path)
        self.bases = (*filter(None, [self.project]), *self._named)
        """Folders that may be the working directory."""
        # In a container, the working directory has links to the entries of /workloads (working_folder.py).
        self.shown = self.project or workloads
        self._found: Dict[str, str] = {}
        self._seen: Set[Tuple[str, Roots]] = set()
        self._waiting: List[Tuple[str, Roots]] = []

    @classmethod
    def of(cls, run: RunSpec, workloads: str) -> Program:
        """Return the program of a run, with the commands of its launcher."""
        words = (*run.command, *run.launcher_words)
        return cls(words, run.rank_environment, workloads, is_native=run.runtime == "native")

    def digests(self) -> dict[str, str]:
        """Return the digests of all files, sorted by name."""
        started = tuple(dict.fromkeys((*self.bases, self.shown)))
        for word in (*self.command, *self.variables):
            self._add_started(word, started)
        self._add_modules(" ".join(self.command), started)
        self._follow()
        for folder in self._named:
            if self._is_in(folder, self.workloads) and not any(
                name.startswith(self.name(folder) + "/") for name in self._found
            ):
                self._waiting += [(path, (_above(path),)) for path in _settings_in(folder)]
                self._follow()
        return dict(sorted(self._found.items()))

    def digest(self, name: str) -> Optional[str]:
        """Return the digest of a file by its name; None without the file."""
        if self._is_in(name, WORKLOADS):
            path = self.workloads + name[len(WORKLOADS) :]
        else:
            path = os.path.join(self.project, name)
        return _digest(_read(path))

    def name(self, path: str) -> str:
        """Return a file's name in one line; unprintable characters become `?`."""
        if self._is_in(path, self.workloads):
            path = WORKLOADS + path[len(self.workloads) :]
        elif self.project and self._is_in(path, self.project):
            path = os.path.relpath(path, self.project)
        return "".join(each if each.isprintable() else "?" for each in path)

    def has_module(self, name: str) -> bool:
        """Return whether `python -m` finds a module in the user's folders."""
        return load_module(name, self.bases)[1] is not None

    def named(self, text: str) -> Iterator[str]:
        """Yield host paths of the paths in `/workloads` that a text names, existing or not."""
        for root in sorted({WORKLOADS, self.workloads}):
            for part in re.split(rf"(?<![\w./-]){re.escape(root)}", text)[1:]:
                rest = _END_OF_WORD.split(part, 1)[0]
                # Paths of the host may contain any character: prefer the whole word if it is a file.
                is_whole = part.startswith("/") and os.path.isfile(self.workloads + part)
                whole = part if is_whole else rest
                if whole and not whole.startswith("/"):
                    continue  # /workloads-of-another
                path = os.path.normpath(self.workloads + whole)
                if self._is_in(path, self.workloads):
                    yield path

    def _folders(self, word: str) -> Iterator[str]:
        """Yield the user's folders that a word names."""
        yield from filter(os.path.isdir, self.named(word))
        if self.project:
            for part in words_of(word):
                path = os.path.normpath(os.path.join(self.project, part))
                if os.path.isdir(path) and self.is_users(path):
                    yield path

    def is_users(self, path: str) -> bool:
        """Return whether a path is in the user's folders."""
        own = filter(None, (self.workloads, self.project))
        if any(self._is_in(path, folder) for folder in own):
            return True
        return bool(self.project) and not path.startswith(_OF_THE_SYSTEM)

    @staticmethod
    def _is_in(path: str, folder: str) -> bool:
        return path == folder or path.startswith(folder + "/")

    def _add(self, path: str) -> None:
        """Add a named file; of a folder, its `__main__.py`."""
        if os.path.isdir(path):
            path = os.path.join(path, "__main__.py")
        if os.path.isfile(path):
            self._waiting.append((path, (self._first_root(path), *self.path)))

    def _first_root(self, path: str) -> str:
        """Return the first folder of Python's path: the program's, after following links."""
        real, top = os.path.realpath(path), os.path.realpath(self.workloads)
        if self._is_in(real, top):
            return _above(self.workloads + real[len(top) :])
        return _above(real if self.project else path)

    def _add_started(self, text: str, bases: Sequence[str]) -> None:
        """Add the files that a command, a variable or a shell script names."""
        for path in self.named(text):
            self._add(path)
        for part in words_of(text):
            for base in bases:
                path = os.path.normpath(os.path.join(base, part))
                if self.is_users(path) and _is_program(path):
                    self._add(path)
        if "import" in text:
            for imported in read_source(text, "", guess=False).imports:
                self._add_import(imported, "", tuple(bases))

    def _add_modules(self, text: str, bases: Sequence[str]) -> None:
        """Add modules started by `python -m`."""
        roots = tuple(bases)
        for module in MODULE.findall(text):
            self._add_import(Import(module), "", roots)
            self._add_import(Import(f"{module}.__main__"), "", roots)

    def _add_import(self, imported: Import, path: str, roots: Roots) -> None:
        self._waiting += [(each, roots) for each in loaded_files(imported, path, roots)]

    def _follow(self) -> None:
        while self._waiting and len(self._found) < MOST_FILES:
            path, roots = self._waiting.pop()
            if (path, roots) in self._seen:
                continue
            self._seen.add((path, roots))
            content = _read(path)
            if content is None:
                continue
            self._found[self.name(path)] = str(_digest(content))
            if isinstance(content, bytes) and path.endswith(SUFFIXES):
                self._add_named(path, content.decode("utf-8", "replace"), roots)

    def _add_named(self, path: str, text: str, roots: Roots) -> None:
        """Add the files that a program or settings file names."""
        texts: Sequence[str] = [text]
        if path.endswith(".py"):
            source = read_source(text, path)
            texts = source.texts
            added = (next(self.named(each), each) for each in source.added)
            roots += tuple(each for each in added if self.is_users(each) and os.path.isdir(each))
            for imported in source.imports:
                self._add_import(imported, path, roots)
        elif path.endswith(".sh"):
            self._add_started(text, (_above(path), *self.bases))
            self._add_modules(text, (_above(path), *self.bases))
        for each in texts:
            for named in self._named_in(each, path):
                self._add(named)

    def _named_in(self, text: str, path: str) -> Iterator[str]:
        """Yield programs and settings that a text in the file `path` names."""
        yield from (each for each in self.named(text) if each.endswith(SUFFIXES))
        for name in _FILE_NAME.findall(_FOLDER_OF_ITS_OWN.sub("", text)):
            if name.endswith(SUFFIXES) and name[0] != "/":
                for folder in (_above(path), self.shown):
                    beside = os.path.normpath(os.path.join(folder, name))
                    if self.is_users(beside):
                        yield beside


def words_of(text: str) -> Iterator[str]:
    """Yield a text, and its parts between separators of shells and lists."""
    yield from filter(None, {text, *_END_OF_WORD.split(text)})


def _project_of(workloads: str) -> str:
    """Return the project of a folder of programs: its containers/workloads, or itself."""
    inside = "/containers/workloads"
    return workloads[: -len(inside)] if workloads.endswith(inside) else workloads


def _above(path: str) -> str:
    return os.path.dirname(path)


def _is_program(path: str) -> bool:
    """Return whether a path is a program or settings; files in an environment's `bin` are software."""
    if path.endswith(SUFFIXES) or os.path.isfile(os.path.join(path, "__main__.py")):
        return True
    in_environment = os.path.basename(_above(path)) in ("bin", "sbin")
    return not in_environment and os.path.isfile(path) and os.access(path, os.X_OK)


def _settings_in(folder: str) -> List[str]:
    """Return the visible programs and settings in a folder; none if it has too many entries."""
    found, waiting, count = [], [folder], 0
    while waiting:
        entries = entries_of(waiting.pop())
        count += len(entries)
        if count > MOST_ENTRIES:
            return []
        for entry in entries:
            if entry.name[0] == "." or entry.name == "__pycache__":
                continue
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
            elif entry.name.endswith(SUFFIXES):
                found.append(entry.path)
    return sorted(found)


def _read(path: str) -> Optional[Union[bytes, str]]:
    """Return a regular file's content, or the size of a large one as text; None if unreadable."""
    try:
        # Follow links, since the folder is the user's.
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


def _digest(content: Optional[Union[bytes, str]]) -> Optional[str]:
    return (
        "sha256:" + hashlib.sha256(content).hexdigest() if isinstance(content, bytes) else content
    )


def changed(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return the names of files that have changed or are gone; new files do not count."""
    return sorted(name for name in before if before[name] != now.get(name))
