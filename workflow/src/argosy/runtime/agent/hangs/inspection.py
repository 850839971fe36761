"""One look at the ranks of a node: where each of them is, and whether it gets on."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Mapping

from .observation import Counts, Families, Moment, held_sockets, program_of
from .places import Place
from .processes import family, processes
from .progress import UNDISTURBED, find_place
from .stacks import StackFolder

# How often stacks are taken, and the seconds between.
_TIMES, _PAUSE = 8, 0.25


@dataclass(frozen=True)
class Finding:
    """Where the ranks are, and the text of their last stacks by rank."""

    number: int
    places: tuple[Place, ...]
    stacks: Mapping[int, str]


def inspect(number: int, pids: Mapping[int, int], folder: StackFolder) -> Finding:
    """Look at the ranks of a node, which takes seconds.

    Args:
        number: which look it is, by the head's count.
        pids: the process of each rank; 0 where it has ended.
        folder: by which stacks are had.
    """
    # Who is asked for a stack wakes up for it and writes: what ranks do by themselves is seen before.
    before = _count(_families(pids), folder)
    time.sleep(UNDISTURBED)
    families = _families(pids)
    after = _count(families, folder)
    sockets = {rank: held_sockets(members) for rank, members in families.items()}
    looks = [Moment.take(families, sockets, folder)]
    for _ in range(_TIMES - 1):
        time.sleep(_PAUSE)
        looks.append(Moment.take(families, sockets, folder))
    places = tuple(find_place(rank, looks, before[rank], after[rank]) for rank in pids)
    stacks = {rank: f"pid {dump.pid}:\n{dump.text}" for rank, dump in looks[-1].dumps.items()}
    return Finding(number, places, stacks)


def _families(pids: Mapping[int, int]) -> Families:
    everybody = processes()
    return {rank: family(everybody, pid) for rank, pid in pids.items()}


def _count(families: Families, folder: StackFolder) -> Mapping[int, Counts]:
    registered = folder.registered()
    return {
        rank: Counts.of(members, program_of(members, registered))
        for rank, members in families.items()
    }
