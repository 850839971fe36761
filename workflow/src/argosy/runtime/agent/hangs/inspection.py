"""One look at the ranks of a node: where each of them is, and whether it gets on."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Callable, Mapping, Sequence

from .observation import Counts, Families, Moment, held_sockets, program_of
from .places import Place
from .processes import family, processes
from .progress import UNDISTURBED, find_place
from .stacks import StackFolder

# How often stacks are taken, and the seconds between.
_TIMES, _PAUSE = 8, 0.25


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
        # Who is asked for a stack wakes up for it and writes: what ranks do by themselves is seen before.
        counted = [self._count(self._families())]
        time.sleep(UNDISTURBED)
        families = self._families()
        counted.append(self._count(families))
        sockets = {rank: held_sockets(members) for rank, members in families.items()}
        looks = [Moment.take(families, sockets, self._folder)]
        for _ in range(_TIMES - 1):
            time.sleep(_PAUSE)
            looks.append(Moment.take(families, sockets, self._folder))
        places = tuple(
            find_place(each.rank, looks, *(counts[each.rank] for counts in counted))
            for each in self._subjects
        )
        stacks = {rank: f"pid {dump.pid}:\n{dump.text}" for rank, dump in looks[-1].dumps.items()}
        self._found(Finding(self._number, places, stacks))

    def _families(self) -> Families:
        everybody = processes()
        return {each.rank: family(everybody, each.pid or 0) for each in self._subjects}

    def _count(self, families: Families) -> Mapping[int, Counts]:
        registered = self._folder.registered()
        return {
            rank: Counts.of(members, program_of(members, registered))
            for rank, members in families.items()
        }
