"""Many garbled cases, one after another: all kinds of tracebacks are told, each with its first case.

The environment's `FUZZ=FROM:COUNT`, as `make fuzz` sets it, tries other cases than the test itself.
"""

import os
import random
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from argosy_common.errors import ArgosyError

Case = Callable[[random.Random], bool]
KINDS = 20


class Endless(BaseException):
    """A case takes too long; no `except Exception` ends it."""


def fuzz(case: Case, count: int, *, least: float = 0.05, patience_s: float = 30) -> None:
    """Try a case by its number's chance: it is taken, or refused by one line.

    Args:
        case: whether it is taken; what it raises otherwise is an ArgosyError.
        count: cases to try, from number 0 on.
        least: share of cases that are taken, since a reader that refuses everything proves nothing.
        patience_s: processor time after which a case counts as endless.
    """
    first, _, chosen = os.environ.get("FUZZ", f"0:{count}").partition(":")
    kinds: dict[str, str] = {}
    tried = taken = failed = 0
    try:
        for number in range(int(first), int(first) + int(chosen)):
            try:
                with _processor_time(patience_s), suppress(ArgosyError):
                    taken += _told_in_a_line(case, random.Random(number))
            except (Exception, Endless) as problem:
                failed += 1
                kinds.setdefault(_kind(problem), f"case {number}\n{_trace(problem)}")
            tried += 1
            if len(kinds) == KINDS:
                break
    finally:
        told = f"{tried} cases from {first}, {taken} taken, {failed} with a traceback"
        print("\n".join((told, *kinds.values())), file=sys.__stdout__, flush=True)
    assert not kinds, (
        f"{failed} cases have a traceback; `--capture=sys` shows the first of each kind"
    )
    assert taken >= least * tried or tried < 100


def _told_in_a_line(case: Case, chance: random.Random) -> bool:
    try:
        return case(chance)
    except ArgosyError as problem:
        assert "\n" not in problem.problem
        raise


def _kind(problem: BaseException) -> str:
    """Return what tracebacks of one cause share: the error, and the last place in Argosy's code."""
    frames = traceback.extract_tb(problem.__traceback__)
    own = [f"{frame.filename}:{frame.lineno}" for frame in frames if "/workflow/" in frame.filename]
    return f"{type(problem).__name__} {own[-1] if own else ''}"


def _trace(problem: BaseException) -> str:
    lines = [line[:1000] for line in traceback.format_exception(problem, limit=-12, chain=False)]
    return "".join(lines)


@contextmanager
def _processor_time(seconds: float) -> Iterator[None]:
    def end(*_: object) -> None:
        raise Endless(f"no end after {seconds} s")

    before = signal.signal(signal.SIGVTALRM, end)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def write(path: Path, text: str) -> None:
    """Write a garbled text as it is: half surrogates are no text of a file."""
    path.write_bytes(text.encode(errors="replace"))
