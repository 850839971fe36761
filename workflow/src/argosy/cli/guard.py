"""Ends commands: each mistake of the user, and each fault of the system, is one line."""

import errno
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn, TextIO

import typer
from typer.exceptions import TyperException

from argosy.cli.commands import OutputClosedError, explain_usage
from argosy_common.errors import ArgosyError, explained, is_of_the_surroundings, plain
from argosy_common.files import apply_umask

MISTAKE = 2
INTERRUPTED = 130


def run_and_leave(command: Callable[[], object]) -> NoReturn:
    """Run a command and end this process with its exit status (docs/commands.md)."""
    sys.stdout, sys.stderr = _tolerant(sys.stdout), _tolerant(sys.stderr)
    status = _flushed(status_of(command))
    if status == 0 and threading.active_count() == 1:
        # Skip Python's teardown, which takes longer than many commands.
        os._exit(0)
    sys.exit(status)


def _tolerant(stream: TextIO | None) -> TextIO:
    """Return a stream that accepts any text in any locale; /dev/null for a closed stream."""
    if stream is None:
        return Path(os.devnull).open("w", encoding="utf-8")
    with suppress(AttributeError, OSError):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[attr-defined]
    return stream


def status_of(command: Callable[[], object]) -> int:
    """Run a command; return its exit status, and print the error that ended it."""
    try:
        _check_folder()
        apply_umask()
        returned = command()
        return returned if isinstance(returned, int) else 0
    except OutputClosedError:
        return 0
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except Exception as problem:
        mistake = _mistake(problem)
        if mistake is None:
            raise
        return _print_mistake(mistake)


def _mistake(problem: Exception) -> ArgosyError | None:
    """Return a mistake of the user or the site; None for a bug of Argosy."""
    if isinstance(problem, ArgosyError):
        return problem
    if isinstance(problem, TyperException):
        return explain_usage(problem)
    if isinstance(problem, UnicodeDecodeError):
        return ArgosyError(f"a file is not UTF-8 text ({problem.reason})")
    # A system error with a file name is about the user's or the site's file.
    if isinstance(problem, OSError) and (problem.filename or is_of_the_surroundings(problem)):
        return ArgosyError(explained(problem))
    return None


def _check_folder() -> None:
    try:
        Path.cwd()
    except OSError as problem:
        raise ArgosyError(
            f"the current folder: {problem.strerror}", "change to the project's folder"
        ) from None


def _print_mistake(problem: ArgosyError) -> int:
    with suppress(OSError):
        print(f"error: {plain(problem.lines)}", file=sys.stderr)
    return MISTAKE


def _flushed(status: int) -> int:
    """Flush the output; return the status, or 2 if the output cannot be written."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError as problem:
            silence(stream)
            if stream is sys.stdout and problem.errno != errno.EPIPE and status != MISTAKE:
                status = _print_mistake(ArgosyError(f"standard output: {problem.strerror}"))
    return status


def silence(stream: TextIO) -> None:
    """Redirect an unread stream to /dev/null, so that Python does not complain at exit."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
