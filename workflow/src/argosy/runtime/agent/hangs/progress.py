"""Where a rank is, by what was seen of it over some seconds, and whether it gets on."""

from __future__ import annotations

from dataclasses import replace
from typing import Mapping, Sequence

from .loops import never_ends
from .observation import Counts, Moment
from .places import (
    ENDED,
    STOPPED,
    UNKNOWN,
    WAITS,
    WORKS,
    Place,
    digest,
    is_checked,
    is_meeting,
    is_of_torch,
    place_of,
    waits_for_own,
)
from .processes import Process, command_line
from .stacks import Dump
from .syscalls import sleeps_for, waits_outside

LONGEST_SLEEP = 120.0
"""A rank that sleeps for so many seconds more, at most, is taken to go on by itself."""

UNDISTURBED = 2.0
"""Seconds between two counts."""

# Share of looks at which a thread that works is found at it. Those of Horovod and Gloo, which poll while
# all ranks wait, are at one of seven.
_LEAST_SHARE = 0.6
# Page faults in a second: of memory that somebody takes and fills.
_LEAST_FAULTS = 500.0
# Bytes: of files and disks in a look; and of a socket's queues, which change while it carries data.
_LEAST_BYTES, _LEAST_QUEUED = 1 << 20, 1 << 14
# Of a thread that waits for one collective there are none; each that comes to an end has one or more.
_LEAST_WAKE_UPS = 2


def find_place(rank: int, looks: Sequence[Moment], before: Counts, after: Counts) -> Place:
    """Return where a rank is.

    Args:
        rank: among all ranks of the job.
        looks: at all ranks of the node, in order.
        before: its counts, `UNDISTURBED` seconds before the first look.
        after: its counts just before the first look.
    """
    last = looks[-1]
    members = last.families[rank]
    if not members:
        return Place(rank, ENDED)
    if any(each.stopped for each in members):
        return Place(rank, STOPPED)
    dumps = complete([look.dumps[rank] for look in looks if rank in look.dumps])
    if not dumps:
        place, loops = Place(rank, UNKNOWN), False
    else:
        frames, loops = dumps[-1].frames, _loops(dumps, last.programs[rank])
        place = place_of(rank, frames)
        # A loop goes from line to line.
        stack = digest([replace(each, line=0) for each in frames] if loops else frames)
        place = replace(place, stack=stack, checked=is_checked(frames, place.call))
    if _moves_data(rank, looks, before, after) or (not loops and _changes(dumps)):
        return replace(place, state=WORKS)
    if place.state == WAITS:
        served = _is_served(place, dumps[-1], before, after)
        return replace(place, state=WORKS) if served else place
    works = not loops and _gets_on(rank, looks, dumps, before, after)
    return replace(place, state=WORKS) if works else place


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


def _moves_data(rank: int, looks: Sequence[Moment], before: Counts, after: Counts) -> bool:
    if after.moved - before.moved >= _LEAST_BYTES:
        return True
    changes = (
        abs(count - looks[n - 1].queued[rank].get(inode, 0))
        for n in range(1, len(looks))
        for inode, count in looks[n].queued[rank].items()
    )
    return max(changes, default=0) >= _LEAST_QUEUED


def _changes(dumps: Sequence[Dump]) -> bool:
    """Return whether a rank is at one place now and at another then."""
    return len({dump.frames for dump in dumps}) > 1


def _loops(dumps: Sequence[Dump], program: Process) -> bool:
    """Return whether a rank is in a loop without an end."""
    command = command_line(program.pid)
    return len({_functions(dump) for dump in dumps}) == 1 and all(
        never_ends(frame, command) for frame in {dump.frames[0] for dump in dumps}
    )


def _is_served(place: Place, dump: Dump, before: Counts, after: Counts) -> bool:
    """Return whether a rank's collectives come to an end, one after another at the same place.

    Ranks of PyTorch, and of Horovod for it, sleep while they wait for one, and wake up for the next. Those
    who wait for others to appear ask again and again.
    """
    sleeps = is_of_torch(dump.frames) and not is_meeting(place.call)
    return sleeps and after.wake_ups - before.wake_ups >= _LEAST_WAKE_UPS


def _gets_on(
    rank: int, looks: Sequence[Moment], dumps: Sequence[Dump], before: Counts, after: Counts
) -> bool:
    """Return whether a rank that is in no collective computes, reads, writes, or will wake up by itself."""
    program, members = looks[-1].programs[rank], looks[-1].families[rank]
    if any(sum(shares) >= _LEAST_SHARE * len(looks) for shares in _shares(rank, looks)):
        return True
    if any(look.on_disk[rank] for look in looks) or _grew(before.calls, after.calls):
        return True
    if after.page_faults - before.page_faults > _LEAST_FAULTS * UNDISTURBED:
        return True
    # A program that it started has ended or begun, as in a script of several.
    others = before.calls.keys() != after.calls.keys() or len(members) < len(
        looks[0].families[rank]
    )
    if others or _grew(before.children, after.children):
        return True
    if any(0 < sleeps_for(each.pid) <= LONGEST_SLEEP for each in members):
        return True
    # Queues of threads and workers are asked every few seconds: those who fill them have to get on.
    own = bool(dumps) and waits_for_own(dumps[-1].frames)
    return not own and (waits_outside(program.pid) or after.wake_ups > before.wake_ups)


def _shares(rank: int, looks: Sequence[Moment]) -> Sequence[Sequence[bool]]:
    return [look.others[rank] for look in looks], [look.first.get(rank, False) for look in looks]


def _grew(before: Mapping[int, int], after: Mapping[int, int]) -> bool:
    return any(count > before.get(pid, count) for pid, count in after.items())
