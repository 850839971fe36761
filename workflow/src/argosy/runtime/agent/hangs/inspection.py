"""One look at the ranks of a node: where each of them is, and whether it gets on."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, replace
from typing import Callable, Mapping, Sequence

from .places import ENDED, IS, STOPPED, UNKNOWN, WORKS, Place, place_of
from .processes import Process, family, main_thread_cpu_s, processes
from .stacks import Dump, StackFolder

# How often stacks are taken, and the seconds between.
_TIMES, _PAUSE = 4, 0.5
# Cores that work takes, at least: of the whole rank, and of others than its first thread.
_LEAST_CORES, _LEAST_OTHER_CORES = 0.2, 0.5
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
        """The thread."""
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
    """All ranks at one moment; `first_cpu_s` is of the first thread of what a rank computes by."""

    families: Mapping[int, list[Process]]
    first_cpu_s: Mapping[int, float]
    dumps: Mapping[int, Dump]

    @classmethod
    def take(cls, subjects: Sequence[Subject], folder: StackFolder) -> _Look:
        everybody = processes()
        families = {each.rank: family(everybody, each.pid or 0) for each in subjects}
        registered = folder.registered()
        chosen = {rank: _program(members, registered) for rank, members in families.items()}
        awake = {each.pid for each in chosen.values() if each and not each.stopped}
        dumps = folder.ask(awake & registered)
        return cls(
            families,
            {rank: main_thread_cpu_s(each.pid) for rank, each in chosen.items() if each},
            {rank: dumps[each.pid] for rank, each in chosen.items() if each and each.pid in dumps},
        )


def _program(members: Sequence[Process], registered: set[int]) -> Process | None:
    """Of a rank's processes the one that computes: of those with stacks, else of all."""
    with_stacks = [each for each in members if each.pid in registered]
    return max(with_stacks or members, key=lambda each: each.cpu_s, default=None)


def _place(subject: Subject, looks: Sequence[_Look], seconds: float) -> Place:
    rank, last = subject.rank, looks[-1]
    members = last.families[rank]
    if not members:
        return Place(rank, ENDED)
    if any(each.stopped for each in members):
        return Place(rank, STOPPED)
    dumps = [look.dumps[rank] for look in looks if rank in look.dumps]
    place = place_of(rank, dumps[-1].frames) if dumps else Place(rank, UNKNOWN)
    if place.state in (IS, UNKNOWN) and _gets_on(rank, looks, dumps, seconds):
        return replace(place, state=WORKS)
    return place


def _gets_on(rank: int, looks: Sequence[_Look], dumps: Sequence[Dump], seconds: float) -> bool:
    """Whether a rank computes, and not always the same: one that loops in one function does not."""
    first, last = looks[0], looks[-1]
    cores = (_cpu_s(last.families[rank]) - _cpu_s(first.families[rank])) / seconds
    first_thread = last.first_cpu_s.get(rank, 0.0) - first.first_cpu_s.get(rank, 0.0)
    if cores < _LEAST_CORES:
        return False
    faults = (_faults(last.families[rank]) - _faults(first.families[rank])) / seconds
    functions = {tuple((each.file, each.function) for each in dump.frames) for dump in dumps}
    others = cores - first_thread / seconds
    return len(functions) > 1 or faults > _LEAST_FAULTS or others > _LEAST_OTHER_CORES


def _cpu_s(members: Sequence[Process]) -> float:
    return sum(each.cpu_s for each in members)


def _faults(members: Sequence[Process]) -> int:
    return sum(each.page_faults for each in members)
