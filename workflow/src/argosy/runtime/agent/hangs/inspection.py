"""One look at the ranks of a node: where each of them is, and whether it gets on."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, replace
from typing import Callable, Mapping, Sequence

from ..sockets import connections, sockets_of
from .loops import never_ends
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
from .processes import (
    Process,
    bytes_moved,
    calls_of_files,
    command_line,
    family,
    processes,
    read_process,
    threads,
    wake_ups,
)
from .stacks import Dump, StackFolder
from .syscalls import sleeps_for, waits_outside

LONGEST_SLEEP = 120.0
"""A rank that sleeps for so many seconds more, at most, is taken to go on by itself."""

# Seconds in which ranks are only watched; then, how often stacks are taken, and the seconds between.
_UNDISTURBED = 2.0
_TIMES, _PAUSE = 8, 0.25
# Share of looks at which a thread that works is found at it. Those of Horovod and Gloo, which poll while
# all ranks wait, are at one of seven.
_LEAST_SHARE = 0.6
# Page faults in a second: of memory that somebody takes and fills.
_LEAST_FAULTS = 500.0
# Bytes: of files and disks in a look; and of a socket's queues, which change while it carries data.
_LEAST_BYTES, _LEAST_QUEUED = 1 << 20, 1 << 14
# Of a thread that waits for one collective there are none; each that comes to an end has one or more.
_LEAST_WAKE_UPS = 2


Families = Mapping[int, "list[Process]"]
"""The processes of each rank."""


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
        time.sleep(_UNDISTURBED)
        families = self._families()
        counted.append(self._count(families))
        sockets = {rank: _sockets(members) for rank, members in families.items()}
        looks = [_Look.take(families, sockets, self._folder)]
        for _ in range(_TIMES - 1):
            time.sleep(_PAUSE)
            looks.append(_Look.take(families, sockets, self._folder))
        places = tuple(
            _place(each, looks, *(counts[each.rank] for counts in counted))
            for each in self._subjects
        )
        stacks = {rank: f"pid {dump.pid}:\n{dump.text}" for rank, dump in looks[-1].dumps.items()}
        self._found(Finding(self._number, places, stacks))

    def _families(self) -> Families:
        everybody = processes()
        return {each.rank: family(everybody, each.pid or 0) for each in self._subjects}

    def _count(self, families: Families) -> Mapping[int, _Counts]:
        registered = self._folder.registered()
        return {
            rank: _Counts.of(members, _program(members, registered))
            for rank, members in families.items()
        }


@dataclass(frozen=True)
class _Look:
    """All ranks at one moment.

    `first`: whether the first thread of the process by which a rank computes is running; `others`:
    whether any other thread of the rank is; `queued`: bytes on their way in a rank's sockets.
    """

    families: Families
    programs: Mapping[int, Process]
    first: Mapping[int, bool]
    others: Mapping[int, bool]
    on_disk: Mapping[int, bool]
    queued: Mapping[int, Mapping[int, int]]
    dumps: Mapping[int, Dump]

    @classmethod
    def take(cls, known: Families, sockets: Mapping[int, set[int]], folder: StackFolder) -> _Look:
        # All of a machine's processes would take long to look through on one that is busy.
        families = {
            rank: list(filter(None, (read_process(each.pid) for each in members)))
            for rank, members in known.items()
        }
        registered = folder.registered()
        chosen = {rank: _program(members, registered) for rank, members in families.items()}
        programs = {rank: each for rank, each in chosen.items() if each}
        # Before they are asked for their stacks, for which they have to run.
        states = {rank: _threads(members) for rank, members in families.items()}
        running = {rank: found.get("R", set()) for rank, found in states.items()}
        on_disk = {rank: "D" in found for rank, found in states.items()}
        first = {rank: each.pid in running[rank] for rank, each in programs.items()}
        others = {rank: len(running[rank]) > first.get(rank, False) for rank in families}
        awake = {each.pid for each in programs.values() if not each.stopped}
        dumps = folder.ask(awake & registered)
        return cls(
            families,
            programs,
            first,
            others,
            on_disk,
            {rank: _queued(members, sockets[rank]) for rank, members in families.items()},
            {rank: dumps[each.pid] for rank, each in programs.items() if each.pid in dumps},
        )


def _program(members: Sequence[Process], registered: set[int]) -> Process | None:
    """Return the one of a rank's processes that computes: of those with stacks, else of all."""
    with_stacks = [each for each in members if each.pid in registered]
    return max(with_stacks or members, key=lambda each: each.cpu_s, default=None)


def _threads(members: Sequence[Process]) -> Mapping[str, set[int]]:
    found: dict[str, set[int]] = {}
    for each in members:
        for thread, state in threads(each.pid).items():
            found.setdefault(state, set()).add(thread)
    return found


def _sockets(members: Sequence[Process]) -> set[int]:
    try:
        return sockets_of(each.pid for each in members)
    except OSError:
        return set()


def _queued(members: Sequence[Process], sockets: set[int]) -> Mapping[int, int]:
    table = connections(members[0].pid) if members and sockets else []
    return {each.inode: sum(each.queued) for each in table if each.inode in sockets}


def _place(subject: Subject, looks: Sequence[_Look], before: _Counts, after: _Counts) -> Place:
    rank, last = subject.rank, looks[-1]
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


@dataclass(frozen=True)
class _Counts:
    """What a rank has done so far.

    `wake_ups` are those of its program's first thread; `calls` are those of files, and `children` are
    wake-ups, by process.
    """

    moved: int
    wake_ups: int
    calls: Mapping[int, int]
    children: Mapping[int, int]
    page_faults: int

    @classmethod
    def of(cls, members: Sequence[Process], program: Process | None) -> _Counts:
        pid = program.pid if program else 0
        # Workers of a loader wake up now and then while they have nothing to do.
        workers = {each.pid for each in members if _is_worker(each, program)}
        return cls(
            sum(bytes_moved(each.pid) for each in members),
            wake_ups(pid),
            {each.pid: calls_of_files(each.pid, each.pid == pid) for each in members},
            {
                each.pid: wake_ups(each.pid)
                for each in members
                if each.pid != pid and each.pid not in workers
            },
            sum(each.page_faults for each in members),
        )


def _is_worker(process: Process, program: Process | None) -> bool:
    """Return whether a process was made by Python's multiprocessing, by whatever method."""
    if program is None or process.pid == program.pid:
        return False
    words = command_line(process.pid)
    return words == command_line(program.pid) or any("multiprocessing" in word for word in words)


def _moves_data(rank: int, looks: Sequence[_Look], before: _Counts, after: _Counts) -> bool:
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


def _is_served(place: Place, dump: Dump, before: _Counts, after: _Counts) -> bool:
    """Return whether a rank's collectives come to an end, one after another at the same place.

    Ranks of PyTorch, and of Horovod for it, sleep while they wait for one, and wake up for the next. Those
    who wait for others to appear ask again and again.
    """
    sleeps = is_of_torch(dump.frames) and not is_meeting(place.call)
    return sleeps and after.wake_ups - before.wake_ups >= _LEAST_WAKE_UPS


def _gets_on(
    rank: int, looks: Sequence[_Look], dumps: Sequence[Dump], before: _Counts, after: _Counts
) -> bool:
    """Return whether a rank that is in no collective computes, reads, writes, or will wake up by itself."""
    program, members = looks[-1].programs[rank], looks[-1].families[rank]
    if any(sum(shares) >= _LEAST_SHARE * len(looks) for shares in _shares(rank, looks)):
        return True
    if any(look.on_disk[rank] for look in looks) or _grew(before.calls, after.calls):
        return True
    if after.page_faults - before.page_faults > _LEAST_FAULTS * _UNDISTURBED:
        return True
    if _grew(before.children, after.children):
        return True
    if any(0 < sleeps_for(each.pid) <= LONGEST_SLEEP for each in members):
        return True
    # Queues of threads and workers are asked every few seconds: those who fill them have to get on.
    own = bool(dumps) and waits_for_own(dumps[-1].frames)
    return not own and (waits_outside(program.pid) or after.wake_ups > before.wake_ups)


def _shares(rank: int, looks: Sequence[_Look]) -> Sequence[Sequence[bool]]:
    return [look.others[rank] for look in looks], [look.first.get(rank, False) for look in looks]


def _grew(before: Mapping[int, int], after: Mapping[int, int]) -> bool:
    return any(count > before.get(pid, count) for pid, count in after.items())
