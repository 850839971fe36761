"""Which ranks have been connected to each other, as far as their node sees it (docs/run-folder.md).

Each end of a connection is noted with the rank that holds it. `meetings.py` puts the nodes' notes together.
Connections that end between two looks are seen without their owners: the kernel lists them for a minute.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from typing import Collection, Iterable, Mapping, Sequence

from ...contract.files import write_json
from ...contract.layout import SCHEMA_VERSION, node_links
from ..hangs.processes import Process, family, processes, with_children
from ..settings import Settings
from ..sockets import LISTEN, Connection, connections, sockets_of
from .program import Program

# Until so many seconds after the start, and the seconds between two looks at the ranks' own sockets.
_EARLY = 30.0
_SCHEDULE = ((1.5, 0.1), (_EARLY, 0.5), (float("inf"), 1.0))
# Seconds between two looks for a program that has not begun.
_WAITING = 0.5
# Of a core, for each kind of look: the kernel's table of connections alone takes 6 ms, and all processes
# of a node as long.
_SHARE = 0.001
# Seconds of a core for whole looks at once where a rank has a new socket, and of a core for more of them.
_AT_ONCE, _MORE = 1.0, 0.003
# Seconds between whole looks at the very start, of programs that do little more than meet.
_AT_FIRST, _OFTEN = 1.5, 0.25
# Seconds; of ranks that live less than that, connections may come and go between two looks.
_LEAST = 0.5
# Noted of a rank; one of thousands of ranks may be connected to all of them. Noted of ports.
_MOST, _MOST_PORTS = 256, 4096
_MEMORY = ">memory "
_SHARED = re.compile(r"^\S+ \S+s \S+ (\S+) (\d+) +(?:.*/dev/shm/|/memfd:|/SYSV)", re.M)


class LinkWatch(threading.Thread):
    """Looks at the ranks' connections from their start on, often at first.

    Args:
        settings: of the node.
        ranks: the processes that each rank was started as.
        own_ports: of the agents, to which ranks speak as well.
        head_ports: that the head keeps for the program.
        program: is one of the ranks, and others are commands beside it.
    """

    def __init__(
        self,
        settings: Settings,
        ranks: Mapping[int, Sequence[int]],
        own_ports: Collection[int],
        head_ports: Iterable[int],
        program: Program | None = None,
    ) -> None:
        super().__init__(name="links", daemon=True)
        self._path = os.path.join(settings.records, node_links(settings.node))
        self._ranks = dict(ranks)
        self._program = program
        self._own_ports = {str(port) for port in own_ports}
        self._head_ports = {str(port) for port in head_ports}
        self._network = _network()
        self._links: dict[int, set[str]] = {rank: set() for rank in ranks}
        # Of the words that start the program.
        self._of_start: set[str] = set()
        self._was_running = False
        self._ports: set[str] = set()
        self._called: set[str] = set()
        self._closed: set[str] = set()
        # Closed when the ranks began.
        self._before: set[str] | None = None
        # When it was seen first and last.
        self._seen: dict[int, tuple[float, float]] = {}
        self._known: set[int] = set()
        self._unclear = False
        self._over = threading.Event()

    def run(self) -> None:
        """Run the thread."""
        began, next_whole, spent = time.monotonic(), 0.0, 0.0
        is_waiting = self._program is not None
        while not all(len(links) >= _MOST for links in self._links.values()):
            before, age = time.thread_time(), time.monotonic() - began
            is_new = self._glance() and spent < _AT_ONCE + _MORE * age
            glance = time.thread_time() - before
            if is_new or age >= next_whole or self._program_changed():
                self._look()
                whole = time.thread_time() - before
                spent += whole if is_new else 0.0
                next_whole = age + (whole / _SHARE if age > _AT_FIRST else _OFTEN)
            if is_waiting and self._was_running:
                # The program has begun, perhaps long after the commands beside it.
                is_waiting, began, next_whole, spent = False, time.monotonic(), 0.0, 0.0
                age = 0.0
            pause = next(pause for until, pause in _SCHEDULE if age < until)
            if age > _EARLY:
                pause = _WAITING if is_waiting else max(pause, glance / _SHARE)
            if self._over.wait(pause):
                return

    def note(self, ranks: Collection[int]) -> None:
        """Note that ranks of this node have found the others through the agents' rendezvous."""
        for rank in ranks:
            if rank in self._links:
                self._links[rank].add("rendezvous")

    def write(self) -> None:
        """Stop looking, and say what was seen; where that cannot be written, nobody claims anything."""
        self._over.set()
        self.join()
        self._look()
        links = {str(rank): sorted(found)[:_MOST] for rank, found in self._links.items()}
        full = any(len(found) > _MOST for found in self._links.values())
        content = {
            "unclear": self._unclear or full or not self._are_observed(),
            "network": self._network,
            "links": links,
            "ports": sorted(self._ports),
            "called": sorted(self._called & self._ports),
            "closed": sorted(self._closed),
        }
        with contextlib.suppress(OSError):
            write_json(self._path, {"schema_version": SCHEMA_VERSION, **content})

    def _are_observed(self) -> bool:
        """Return whether all ranks lived long enough for their connections to be seen."""
        seen = [self._seen.get(rank, (0.0, 0.0)) for rank in self._ranks]
        return all(last - first >= _LEAST for first, last in seen)

    def _glance(self) -> bool:
        """Note the ranks' shared memory, and return whether one of them, or its children, has a new socket.

        MPI may meet by memory alone, so whole looks would come too late for it.
        """
        pids: set[int] = set()
        for rank, started in self._ranks.items():
            mine = {each for pid in started for each in with_children(pid)}
            self._note_memory(rank, mine)
            pids |= mine
        try:
            sockets = sockets_of(pids)
        except PermissionError:
            return False  # one is about to end
        is_new = not sockets <= self._known
        self._known = sockets
        return is_new

    def _program_changed(self) -> bool:
        """Return whether the program beside others has begun or ended since the last look."""
        return self._program is not None and self._program.is_running() != self._was_running

    def _look(self) -> None:
        everybody, now = processes(), time.monotonic()
        members = _members(everybody, self._ranks, self._program)
        of_start: set[int] = set()
        was_running = self._was_running
        if self._program:
            of_start = self._program.not_yet(everybody)
            members[self._program.number] -= of_start
            self._was_running = self._program.is_running()
        table = connections(os.getpid())
        holders: dict[int, Sequence[Connection]] = {}
        for rank, found in members.items():
            if not found:
                continue
            try:
                own = sockets_of(found)
            except PermissionError:
                # It is about to end, or does not let itself be seen.
                continue
            first, _ = self._seen.get(rank, (now, now))
            self._seen[rank] = first, now
            holders[rank] = held = [each for each in table if each.inode in own]
            self._ports.update(_port(each.local) for each in held if each.state == LISTEN)
            self._links[rank] |= self._names(held)
            self._note_memory(rank, found)
        self._note_listeners(holders)
        with contextlib.suppress(PermissionError):
            own = sockets_of(of_start)
            self._of_start |= self._names(each for each in table if each.inode in own)
        closed = {self._named(each.local, each.remote): each for each in table if each.inode == 0}
        if self._before is None:
            self._before = set(closed)
        if self._program and not was_running and not self._was_running:
            self._before |= set(closed)
        self._note_closed(each for name, each in closed.items() if name not in self._before)

    def _note_listeners(self, holders: Mapping[int, Sequence[Connection]]) -> None:
        """Note connections for the ranks that listen at their other ends, which accept them later."""
        listening = {
            each.local: rank
            for rank, held in holders.items()
            for each in held
            if each.state == LISTEN
        }
        for each in (each for held in holders.values() for each in held):
            port = f":{_port(each.remote)}"
            for end in [each.remote, *([f"0.0.0.0{port}", f"::{port}"] if _is_here(each) else [])]:
                if end in listening and not self._is_agents(each.local, each.remote):
                    self._links[listening[end]].add(self._named(each.remote, each.local))

    def _names(self, held: Iterable[Connection]) -> set[str]:
        return {
            self._named(each.local, each.remote)
            for each in held
            if each.state != LISTEN and not self._is_agents(each.local, each.remote)
        }

    def _note_closed(self, table: Iterable[Connection]) -> None:
        """Note the ports of closed connections that no rank was seen to hold."""
        known = self._of_start.union(*self._links.values())
        for each in table:
            ends = (each.local, each.remote)
            ports = {_port(end) for end in ends}
            if not self._is_agents(*ends) and self._named(*ends) not in known:
                self._unclear |= bool(self._head_ports & ports)
                (self._called if _is_here(each) else self._closed).update(ports)
        self._unclear |= max(map(len, (self._ports, self._called, self._closed))) > _MOST_PORTS

    def _is_agents(self, local: str, remote: str) -> bool:
        return bool({_port(local), _port(remote)} & self._own_ports) or _port(remote) == "0"

    def _named(self, local: str, remote: str) -> str:
        return f"{self._network if _is_loop(remote) else ''}>{local}>{remote}"

    def _note_memory(self, rank: int, pids: Collection[int]) -> None:
        """Note the memory that a rank without connections may share with others of its node.

        Its own may be there before that of others.
        """
        is_alone = all(_MEMORY in each for each in self._links[rank])
        for pid in pids if len(self._ranks) > 1 and is_alone else ():
            path = f"/proc/{pid}/maps"
            with contextlib.suppress(OSError), open(path, errors="replace") as file:
                self._links[rank].update(
                    f"{self._network}{_MEMORY}{one}:{two}"
                    for one, two in _SHARED.findall(file.read())
                )


def _members(
    everybody: Mapping[int, Process], ranks: Mapping[int, Sequence[int]], program: Program | None
) -> dict[int, set[int]]:
    """Return the processes of each rank; daemons that it has started are the agent's children by now."""
    found = {
        rank: {each.pid for pid in started for each in family(dict(everybody), pid)}
        for rank, started in ranks.items()
    }
    known = {pid for members in found.values() for pid in members}
    for each in everybody.values():
        if each.parent == os.getpid() and each.pid not in known:
            rank = _rank_of(each.pid, program)
            if rank in found:
                found[rank] |= {one.pid for one in family(dict(everybody), each.pid)}
    return found


def _rank_of(pid: int, program: Program | None) -> int:
    """Return the rank that has started a process, by its variables; -1 where they do not say."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            variables = file.read()
    except OSError:
        return -1
    name = re.search(rb"(?:^|\0)ARGOSY_RANK=(\d{1,9})\0", variables)
    if name and program and not re.search(rb"(?:^|\0)ARGOSY_BESIDE=1\0", variables):
        return program.number
    return int(name[1]) if name else -1


def _port(endpoint: str) -> str:
    return endpoint.rpartition(":")[2]


def _address(endpoint: str) -> str:
    return endpoint.rpartition(":")[0]


def _is_here(each: Connection) -> bool:
    return _is_loop(each.remote) or _address(each.local) == _address(each.remote)


def _is_loop(endpoint: str) -> bool:
    return endpoint.startswith(("127.", "::1:"))


def _network() -> str:
    """Return what tells this network's loop from that of another machine, or of another container."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()[:13] + os.readlink("/proc/self/ns/net")
    except OSError:
        return "unknown"
