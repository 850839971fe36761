"""Samples and counters of a node's ranks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import AbstractSet, Mapping, Sequence

from ..sockets import connections, sockets_of
from .places import WAITS, place_of
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
class Sample:
    """A sample of one rank.

    `program`: the process that computes. `first`: whether its first thread runs. `others`: whether other
    threads of the rank run. `on_disk`: whether a thread waits for a disk. `queued`: bytes in queues of
    sockets, by inode.
    """

    members: Sequence[Process]
    program: Process | None
    first: bool
    others: bool
    on_disk: bool
    queued: Mapping[int, int]
    dump: Dump | None


def take_samples(
    known: Families,
    sockets: Mapping[int, set[int]],
    folder: StackFolder,
    spared: AbstractSet[int],
) -> dict[int, Sample]:
    """Return a sample of each rank; `spared` processes dump no stacks."""
    # Read only known processes: reading all takes long on a busy machine.
    families = {
        rank: list(filter(None, (read_process(each.pid) for each in members)))
        for rank, members in known.items()
    }
    registered = folder.registered() - spared
    programs = {rank: program_of(members, registered) for rank, members in families.items()}
    # Read the states before requesting stacks, since processes run to dump them.
    states = {rank: _threads(members) for rank, members in families.items()}
    awake = {each.pid for each in programs.values() if each and not each.stopped}
    dumps = folder.ask(awake & registered)
    found = {}
    for rank, members in families.items():
        program, running = programs[rank], states[rank].get("R", set())
        pid = program.pid if program else 0
        first, on_disk = pid in running, "D" in states[rank]
        queued = _queued(members, sockets[rank])
        others = len(running) > first
        found[rank] = Sample(members, program, first, others, on_disk, queued, dumps.get(pid))
    return found


def program_of(members: Sequence[Process], registered: set[int]) -> Process | None:
    """Return the process with most CPU time among those with stacks, or else among all."""
    with_stacks = [each for each in members if each.pid in registered]
    return max(with_stacks or members, key=lambda each: each.cpu_s, default=None)


def waiting_beside_others(families: Families, folder: StackFolder) -> set[int]:
    """Return the processes that wait in a collective while a process like them, in the same rank, does not.

    Launchers such as torchrun start several workers in a rank; the place of the others matters.
    """
    registered, found = folder.registered(), set()
    for members in families.values():
        program = program_of(members, registered)
        alike = [
            each.pid
            for each in members
            if each.pid in registered
            and program
            and each.parent == program.parent
            and _kind(each) == _kind(program)
        ]
        dumps = folder.ask(alike) if len(alike) > 1 else {}
        waiting = {pid for pid, dump in dumps.items() if place_of(0, dump.frames).state == WAITS}
        found |= waiting if len(waiting) < len(alike) else set()
    return found


def _kind(process: Process) -> str:
    """Return a process's command line without numbers, such as that of a local rank."""
    return re.sub(r"\d+", "", " ".join(command_line(process.pid)))


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
    """Counters of a rank.

    `moved`: bytes. `wake_ups`: of its program's first thread. `calls`: reads and writes, by pid.
    `children`: wake-ups of other processes, by pid.
    """

    moved: int
    wake_ups: int
    calls: Mapping[int, int]
    children: Mapping[int, int]
    page_faults: int

    @classmethod
    def of(cls, members: Sequence[Process], program: Process | None) -> Counts:
        pid = program.pid if program else 0
        # Idle workers of a data loader wake up now and then.
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
    """Return whether Python's multiprocessing started a process, with any start method."""
    if program is None or process.pid == program.pid:
        return False
    words = command_line(process.pid)
    return words == command_line(program.pid) or any("multiprocessing" in word for word in words)
