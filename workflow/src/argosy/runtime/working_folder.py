"""Working directory of a program: the run's `output` with links to the project's files.

A program reads `configs/base.yaml` as in its project, and its output stays in the run's folder. Each
entry of the project has a link, except the experiment's `outputs`. Links exist only while an attempt
runs, so that copies of the folder do not include the project.

Programs of earlier attempts may have created anything there, so links are not followed.
"""

from __future__ import annotations

import contextlib
import os
from typing import FrozenSet, Iterable, Iterator, Sequence, Tuple

from .contract.files import FOLDER_MODE

MOST_ENTRIES = 1000
"""Most entries of a folder that gets links."""
_OF_ARGOSY = (".snakemake", "__pycache__", "logs", "results")
"""Entries of a project without links: Argosy's output, and names to which programs often write."""

_Paths = FrozenSet[Tuple[str, ...]]
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def show(output: str, project: str, seen: str, outputs: Iterable[str]) -> Iterator[str]:
    """Create links to the entries of a project; yield messages about folders that are too large.

    Args:
        output: the working directory.
        project: the folder of the project.
        seen: its path for the program.
        outputs: the program's outputs; absolute paths are ignored.

    Raises:
        OSError: a folder cannot be read, or a link cannot be created.
    """
    with _opened(output) as folder:
        yield from _show(folder, project, seen, _parts(outputs), _OF_ARGOSY)


def make_folder(output: str, path: str) -> None:
    """Create a folder below the working directory. Raises OSError, also if its path has a link."""
    with contextlib.ExitStack() as opened:
        folder = opened.enter_context(_opened(output))
        for name in filter(None, path.split("/")):
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, FOLDER_MODE, dir_fd=folder)
            folder = opened.enter_context(_opened(name, folder))


def hide(output: str, seen: str, outputs: Iterable[str]) -> None:
    """Remove the links that `show` creates. Raises OSError."""
    with _opened(output) as folder:
        _hide(folder, seen, _parts(outputs))


def _show(
    folder: int, project: str, seen: str, outputs: _Paths, hidden: Sequence[str] = ()
) -> Iterator[str]:
    with os.scandir(project) as found:
        entries = [each for each in found if each.name not in hidden]
    if len(entries) > MOST_ENTRIES:
        yield f"{seen} has over {MOST_ENTRIES:,} entries, so the working directory does not show them"
        return
    for entry in entries:
        inner = _below(outputs, entry.name)
        with contextlib.suppress(FileExistsError):
            if not inner:
                os.symlink(f"{seen}/{entry.name}", entry.name, dir_fd=folder)
            elif entry.is_dir():
                os.mkdir(entry.name, FOLDER_MODE, dir_fd=folder)
        if inner and () not in inner and entry.is_dir():
            # A program of an earlier attempt may have created another kind of entry.
            with contextlib.suppress(NotADirectoryError), _opened(entry.name, folder) as below:
                yield from _show(below, entry.path, f"{seen}/{entry.name}", inner)


def _hide(folder: int, seen: str, outputs: _Paths) -> None:
    with os.scandir(folder) as found:
        entries = [(each.name, each.is_symlink()) for each in found]
    for name, is_link in entries:
        path, inner = f"{seen}/{name}", _below(outputs, name)
        if is_link and os.readlink(name, dir_fd=folder) == path:
            os.unlink(name, dir_fd=folder)
        elif inner and () not in inner and not is_link:
            with contextlib.suppress(NotADirectoryError), _opened(name, folder) as below:
                _hide(below, path, inner)


def _parts(outputs: Iterable[str]) -> _Paths:
    return frozenset(tuple(path.split("/")) for path in outputs if not path.startswith("/"))


def _below(outputs: _Paths, name: str) -> _Paths:
    return frozenset(path[1:] for path in outputs if path[0] == name)


@contextlib.contextmanager
def _opened(path: str, folder: int | None = None) -> Iterator[int]:
    descriptor = os.open(path, _FOLDER, dir_fd=folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
