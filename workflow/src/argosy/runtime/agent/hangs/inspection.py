"""One look at the ranks of a node: where each of them is, and whether it gets on."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, replace
from typing import Callable, Mapping, Sequence

from .places import ENDED, IS, STOPPED, UNKNOWN, WORKS, Place, is_library, place_of
from .processes import Process, family, processes, runnable
from .stacks import Dump, StackFolder

# How often stacks are taken, and the seconds between.
_TIMES, _PAUSE = 8, 0.25
# Share of looks at which a thread that works is found at it. Those of Horovod and Gloo, which poll while
# all ranks wait, are at one of seven.
_LEAST_SHARE = 0.6
# Page faults in a second: of memory that somebody takes and fills.
_LEAST_FAULTS = 500.0


@dataclass(frozen=True)
class Subject:
    """A rank to look at; `pid` is None when it has ended."""

    rank: int
    pid: int | None


@dataclass(frozen=True)
class Finding:
    """Where the ranks are, and the text of their last stacks by rank."""

    number: int
    places: tuple[Place, ...]
    stacks: Mapping[int, str]


class Inspection(threading.Thread):
    """Looks, which takes seconds, and hands on what it found.

    Args:
        number: which look it is, by the head's count.
        subjects: the node's ranks.
        folder: by which stacks are had.
        found: called once, in this thread.
    """

    def __init__(
        self,
        number: int,
        subjects: Sequence[Subject],
        folder: StackFolder,
        found: Callable[[Finding], None],
    ) -> None:
        super().__init__(name="inspection", daemon=True)
        self._number = number
        self._subjects = subjects
        self._folder = folder
        self._found = found

    def run(self) -> None:
        """Run the thread."""
        first, began = _Look.take(self._subjects, self._folder), time.monotonic()
        looks = [first]
        for _ in range(_TIMES - 1):
            time.sleep(_PAUSE)
            looks.append(_Look.take(self._subjects, self._folder))
        seconds = time.monotonic() - began
        places = tuple(_place(subject, looks, seconds) for subject in self._subjects)
        stacks = {rank: f"pid {dump.pid}:\n{dump.text}" for rank, dump in looks[-1].dumps.items()}
        self._found(Finding(self._number, places, stacks))


@dataclass(frozen=True)
class _Look:
    """All ranks at one moment.

    `first`: whether the first thread of the process by which a rank computes is running; `others`:
    whether any other thread of the rank is.
    """

    families: Mapping[int, list[Process]]
    first: Mapping[int, bool]
    others: Mapping[int, bool]
    dumps: Mapping[int, Dump]

    @classmethod
    def take(cls, subjects: Sequence[Subject], folder: StackFolder) -> _Look:
        everybody = processes()
        families = {each.rank: family(everybody, each.pid or 0) for each in subjects}
        registered = folder.registered()
        chosen = {rank: _program(members, registered) for rank, members in families.items()}
        # Before they are asked for their stacks, for which they have to run.
        running = {rank: _running(members) for rank, members in families.items()}
        first = {rank: each.pid in running[rank] for rank, each in chosen.items() if each}
        others = {rank: len(running[rank]) > first.get(rank, False) for rank in families}
        awake = {each.pid for each in chosen.values() if each and not each.stopped}
        dumps = folder.ask(awake & registered)
        return cls(
            families,
            first,
            others,
            {rank: dumps[each.pid] for rank, each in chosen.items() if each and each.pid in dumps},
        )


def _program(members: Sequence[Process], registered: set[int]) -> Process | None:
    """Return the one of a rank's processes that computes: of those with stacks, else of all."""
    with_stacks = [each for each in members if each.pid in registered]
    return max(with_stacks or members, key=lambda each: each.cpu_s, default=None)


def _running(members: Sequence[Process]) -> set[int]:
    return {thread for each in members for thread in runnable(each.pid)}


def _place(subject: Subject, looks: Sequence[_Look], seconds: float) -> Place:
    rank, last = subject.rank, looks[-1]
    members = last.families[rank]
    if not members:
        return Place(rank, ENDED)
    if any(each.stopped for each in members):
        return Place(rank, STOPPED)
    dumps = complete([look.dumps[rank] for look in looks if rank in look.dumps])
    place = place_of(rank, dumps[-1].frames) if dumps else Place(rank, UNKNOWN)
    if place.state in (IS, UNKNOWN) and _gets_on(rank, looks, dumps, seconds):
        return replace(place, state=WORKS)
    return place


def complete(dumps: Sequence[Dump]) -> list[Dump]:
    """Leave out those that were read while a process that seldom runs still wrote them.

    They have no frames yet, or only the innermost ones of another.
    """
    return [
        dump
        for dump in dumps
        if dump.frames and not any(_begins(other, dump) for other in dumps if other is not dump)
    ]


def _begins(longer: Dump, shorter: Dump) -> bool:
    begin = _functions(longer)[: len(shorter.frames)]
    return len(longer.frames) > len(shorter.frames) and begin == _functions(shorter)


def _functions(dump: Dump) -> tuple[tuple[str, str], ...]:
    return tuple((frame.file, frame.function) for frame in dump.frames)


def _gets_on(rank: int, looks: Sequence[_Look], dumps: Sequence[Dump], seconds: float) -> bool:
    """Return whether a rank computes, and is in no endless loop as far as is seen from outside.

    A loop in one function of the program takes one core, no new memory and calls no library that is
    written in Python.
    """
    if sum(look.others[rank] for look in looks) >= _LEAST_SHARE * len(looks):
        return True
    if sum(look.first.get(rank, False) for look in looks) < _LEAST_SHARE * len(looks):
        return False
    if not dumps:
        # Of a program that is no Python nobody knows more.
        return True
    first, last = looks[0], looks[-1]
    faults = (_faults(last.families[rank]) - _faults(first.families[rank])) / seconds
    functions = {_functions(dump) for dump in dumps}
    in_library = any(is_library(each.frames[0]) for each in dumps)
    return in_library or len(functions) > 1 or faults > _LEAST_FAULTS


def _faults(members: Sequence[Process]) -> int:
    return sum(each.page_faults for each in members)
