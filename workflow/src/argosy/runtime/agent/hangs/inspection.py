"""Inspection of a node's ranks: where each one is, and whether it makes progress."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import AbstractSet, Mapping

from .observation import (
    Counts,
    Families,
    held_sockets,
    program_of,
    take_samples,
    waiting_beside_others,
)
from .places import Place
from .processes import family, processes
from .progress import UNDISTURBED, find_place
from .stacks import StackFolder

# Number of stack samples, and the seconds between them.
_TIMES, _PAUSE = 8, 0.25


@dataclass(frozen=True)
class Finding:
    """The ranks' places, and the text of their last stacks by rank."""

    number: int
    places: tuple[Place, ...]
    stacks: Mapping[int, str]


def inspect(number: int, pids: Mapping[int, int], folder: StackFolder) -> Finding:
    """Inspect the ranks of a node, which takes seconds.

    Args:
        number: the head's number of this inspection.
        pids: the process of each rank; 0 if it has ended.
        folder: the folder of stacks.
    """
    # Dumping a stack wakes a process and makes it write, so the counts are between dumps.
    spared = waiting_beside_others(_families(pids), folder)
    before = _count(_families(pids), folder, spared)
    time.sleep(UNDISTURBED)
    families = _families(pids)
    after = _count(families, folder, spared)
    sockets = {rank: held_sockets(members) for rank, members in families.items()}
    looks = [take_samples(families, sockets, folder, spared)]
    for _ in range(_TIMES - 1):
        time.sleep(_PAUSE)
        looks.append(take_samples(families, sockets, folder, spared))
    places = tuple(
        find_place(rank, [look[rank] for look in looks], before[rank], after[rank]) for rank in pids
    )
    dumps = {rank: last.dump for rank, last in looks[-1].items() if last.dump}
    stacks = {rank: f"pid {dump.pid}:\n{dump.text}" for rank, dump in dumps.items()}
    return Finding(number, places, stacks)


def _families(pids: Mapping[int, int]) -> Families:
    everybody = processes()
    return {rank: family(everybody, pid) for rank, pid in pids.items()}


def _count(
    families: Families, folder: StackFolder, spared: AbstractSet[int]
) -> Mapping[int, Counts]:
    registered = folder.registered() - spared
    return {
        rank: Counts.of(members, program_of(members, registered))
        for rank, members in families.items()
    }
