"""What is seen of a node's ranks at one moment, and counted between two."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Mapping, Sequence

from ..sockets import connections, sockets_of
from .processes import (
    Process,
    bytes_moved,
    calls_of_files,
    command_line,
    read_process,
    threads,
    wake_ups,
)
from .stacks import Dump, StackFolder

Families = Mapping[int, "list[Process]"]
"""The processes of each rank."""


@dataclass(frozen=True)
class Moment:
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
    def take(cls, known: Families, sockets: Mapping[int, set[int]], folder: StackFolder) -> Moment:
        # All of a machine's processes would take long to look through on one that is busy.
        families = {
            rank: list(filter(None, (read_process(each.pid) for each in members)))
            for rank, members in known.items()
        }
        registered = folder.registered()
        chosen = {rank: program_of(members, registered) for rank, members in families.items()}
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


def program_of(members: Sequence[Process], registered: set[int]) -> Process | None:
    """Return the one of a rank's processes that computes: of those with stacks, else of all."""
    with_stacks = [each for each in members if each.pid in registered]
    return max(with_stacks or members, key=lambda each: each.cpu_s, default=None)


def _threads(members: Sequence[Process]) -> Mapping[str, set[int]]:
    found: dict[str, set[int]] = {}
    for each in members:
        for thread, state in threads(each.pid).items():
            found.setdefault(state, set()).add(thread)
    return found


def held_sockets(members: Sequence[Process]) -> set[int]:
    try:
        return sockets_of(each.pid for each in members)
    except OSError:
        return set()


def _queued(members: Sequence[Process], sockets: set[int]) -> Mapping[int, int]:
    table = connections(members[0].pid) if members and sockets else []
    return {each.inode: sum(each.queued) for each in table if each.inode in sockets}


@dataclass(frozen=True)
class Counts:
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
    def of(cls, members: Sequence[Process], program: Process | None) -> Counts:
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
