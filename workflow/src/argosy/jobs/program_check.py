"""Rejects a study with a missing program before anything is submitted."""

import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from difflib import get_close_matches
from itertools import islice
from pathlib import Path

from argosy.runtime.program_files import MODULE, PROGRAMS, Program, words_of
from argosy.study.runs import Run
from argosy_common.errors import ArgosyError

_COMPLETED_LATER = re.compile(r"[*?$`{}\[\]\\]")
"""Characters of paths that a shell or a rank expands."""
_OF_A_SHELL = re.compile(r"\s")
_MOST_NAMES = 1000
"""Maximum number of a folder's entries to compare with a missing name."""


def check_programs(workloads: Path, runs: Iterable[Run]) -> None:
    """Reject missing programs, modules and folders that commands, launchers or variables name.

    Raises:
        ArgosyError: with the key, and similar names.
    """
    # Points and repeats of an experiment share a command, unless it contains their own numbers.
    for run in {
        (run.experiment, run.runtime, run.command, *run.environment.items()): run for run in runs
    }.values():
        program = Program(
            run.command, run.environment, str(workloads), is_native=run.runtime == "native"
        )
        # An unreadable path may exist.
        with suppress(OSError):
            for key, path in _missing(run, program):
                name = f"experiments.{run.asked_as}.{key}: {program.name(str(path))}"
                raise ArgosyError(f"{name}: no such file or folder", _hint(program, path))


def check_script(project: Path, words: Iterable[str]) -> None:
    """Reject a relative script that the project lacks, if the user names no image that may contain it.

    Raises:
        ArgosyError: with the script, and similar names.
    """
    script = next((word for word in words if word.endswith(PROGRAMS)), "/")
    path = project / script
    with suppress(OSError):
        if script[0] != "/" and not path.exists():
            raise ArgosyError(
                f"{script}: no such file in {project}",
                f"did you mean {similar[0].relative_to(project)}?"
                if (similar := _similar(path))
                else "change to the program's folder, or name the image that contains it: --image NAME",
            )


def _missing(run: Run, program: Program) -> Iterator[tuple[str, Path]]:
    """Yield the study's key and the path of each missing file or folder."""
    for name, value in run.environment.items():
        yield from ((f"environment.{name}", path) for path in _missing_in(value, program))
    started = [word for word in run.command[1:] if word[:1] != "-"][:1]
    for word in run.command:
        is_program = word in (run.command[0], *started)
        yield from (("command", path) for path in _missing_in(word, program, is_program))
        yield from (("command", path) for path in _misspelt(word, program))
    yield from (("command", path) for path in _missing_program(run, program))
    for text in run.own_launcher.texts if run.own_launcher else ():
        yield from (("launcher", path) for path in _missing_in(text, program))
    for module in MODULE.findall(" ".join(run.command)):
        yield from (("command", path) for path in _missing_module(module, program))


def _missing_in(word: str, program: Program, is_program: bool = False) -> Iterator[Path]:
    """Yield missing paths in `/workloads` that a word names.

    Programs may create data later, so a path that is not a program counts only if a similar one exists. In
    native runs only programs count, since programs may create files there, and shells may test for them.
    """
    is_plain = not program.project and not _OF_A_SHELL.search(word)
    for path in map(Path, program.named(word)):
        is_whole = not _COMPLETED_LATER.search(str(path)[len(program.workloads) :])
        if not is_whole or path.exists():
            continue
        if path.suffix in PROGRAMS or (is_plain and (is_program or _similar(path))):
            yield path


def _misspelt(word: str, program: Program) -> Iterator[Path]:
    """Yield relative programs in a word that no working directory has, but that resemble a file there."""
    for part in words_of(word):
        if part.endswith(PROGRAMS) and part[0] != "/" and not _COMPLETED_LATER.search(part):
            paths = [_below(base, part) for base in program.bases]
            if not any(path.exists() for path in paths):
                yield from (path for path in paths if _similar(path))


def _missing_program(run: Run, program: Program) -> Iterator[Path]:
    """Yield the missing program of a native run, except programs of the system."""
    if not program.project:
        return
    scripts = [word for word in run.command if word.endswith(PROGRAMS)][:1]
    for word in [*(run.command[:1] if "/" in run.command[0] else []), *scripts]:
        path = _below(program.project, word)
        # The folder of an absolute path may exist only on nodes.
        is_seen = word[0] != "/" or path.parent.is_dir()
        is_whole = not _COMPLETED_LATER.search(word) and not _OF_A_SHELL.search(word)
        if is_seen and is_whole and program.is_users(str(path)) and not path.exists():
            yield path


def _missing_module(module: str, program: Program) -> Iterator[Path]:
    """Yield the expected path of a missing module of the user: by its package, or by a similar name."""
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names or program.has_module(module):
        return
    for base in map(Path, program.bases):
        # A folder without `__init__.py` never wins over an installed package.
        is_package = (base / top).is_dir()
        is_theirs = (base / top / "__init__.py").is_file()
        if is_theirs or (not is_package and _similar(base / f"{top}.py")):
            yield base / f"{module.replace('.', '/')}.py"


def _below(folder: str, name: str) -> Path:
    return Path(os.path.normpath(Path(folder) / name))


def _hint(program: Program, path: Path) -> str:
    if similar := _similar(path):
        return f"did you mean {' or '.join(program.name(str(each)) for each in similar)}?"
    if program.project:
        return "write a path from the project's folder, or an absolute one"
    return f"/workloads is {program.workloads}; containers have your other folders only by `data`"


def _similar(path: Path) -> list[Path]:
    """Return existing paths with names similar to the first missing part of the path."""
    above = path.parent
    while not above.is_dir():
        path, above = above, above.parent
    names = sorted(each.name for each in islice(above.iterdir(), _MOST_NAMES))
    return [above / name for name in get_close_matches(path.name, names, cutoff=0.7)]
