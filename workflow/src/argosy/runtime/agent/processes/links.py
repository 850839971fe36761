"""Records which ranks of a node have been connected (docs/run-folder.md).

Each end of a connection is recorded with its rank; `meetings.py` combines the records of all nodes.
Connections that end between two scans are seen without their owners: the kernel lists them for a minute.
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
from ...meetings import groups_in
from ..hangs.processes import Process, family, processes, with_children
from ..settings import Settings
from ..sockets import LISTEN, Connection, connections, sockets_of
from .program import Program

# Pairs: up to this age of the ranks in seconds, pause so long between scans of their sockets.
_EARLY = 30.0
_SCHEDULE = ((1.5, 0.1), (_EARLY, 0.5), (float("inf"), 1.0))
# Seconds between scans while the program has not started.
_WAITING = 0.5
# Share of a core for each kind of scan: the table of connections takes 6 ms, and so do all processes.
_SHARE = 0.001
# CPU seconds for immediate full scans after new sockets, and the share of a core added over time.
_AT_ONCE, _MORE = 1.0, 0.003
# Full scans in the first seconds, for programs that do little more than meet: until, and pause.
_AT_FIRST, _OFTEN = 1.5, 0.25
# Shortest life of a rank in seconds whose connections are seen: shorter ones may fall between scans.
_LEAST = 0.5
# Limits of recorded connections per rank, and of ports.
_MOST, _MOST_PORTS = 256, 4096
_MEMORY = ">memory "
_SHARED = re.compile(r"^\S+ \S+s \S+ (\S+) (\d+) +(?:.*/dev/shm/|/memfd:|/SYSV)", re.M)


class LinkWatch(threading.Thread):
    """Scans the ranks' connections from their start on, at first often.

    Args:
        settings: the node's settings.
        ranks: pids of each rank's first processes.
        own_ports: ports of the agents, to ignore.
        head_ports: ports that the head reserves for the program.
        program: with `per: job`, the program; the other ranks are commands beside it.
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
        # Connections of the launcher's `start` words.
        self._of_start: set[str] = set()
        self._was_running = False
        self._ports: set[str] = set()
        self._called: set[str] = set()
        self._closed: set[str] = set()
        # Connections that were closed before the ranks started.
        self._before: set[str] | None = None
        # Times of the first and last scan that saw each rank.
        self._seen: dict[int, tuple[float, float]] = {}
        self._known: set[int] = set()
        self._unclear = False
        self._over = threading.Event()

    def run(self) -> None:
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
                # The program may start long after the commands beside it.
                is_waiting, began, next_whole, spent = False, time.monotonic(), 0.0, 0.0
                age = 0.0
            pause = next(pause for until, pause in _SCHEDULE if age < until)
            if age > _EARLY:
                pause = _WAITING if is_waiting else max(pause, glance / _SHARE)
            if self._over.wait(pause):
                return

    def note(self, ranks: Collection[int]) -> None:
        """Record ranks of this node that met the others through the agents' rendezvous."""
        for rank in ranks:
            if rank in self._links:
                self._links[rank].add("rendezvous")

    def write(self) -> None:
        """Stop scanning and write the record; without the file, it stays unknown whether ranks met."""
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
        """Return whether all ranks lived long enough for scans to see their connections."""
        seen = [self._seen.get(rank, (0.0, 0.0)) for rank in self._ranks]
        return all(last - first >= _LEAST for first, last in seen)

    def _glance(self) -> bool:
        """Record the ranks' shared memory and return whether they have a new socket.

        MPI may meet through memory alone, for which full scans come too late.
        """
        members = {
            rank: {each for pid in started for each in with_children(pid)}
            for rank, started in self._ranks.items()
        }
        # Only full scans separate a program from its `start` words, which may share memory.
        starting = self._program.number if self._program else None
        self._note_memory({k: v for k, v in members.items() if k != starting})
        try:
            sockets = sockets_of({pid for found in members.values() for pid in found})
        except PermissionError:
            return False  # a process is about to end
        is_new = not sockets <= self._known
        self._known = sockets
        return is_new

    def _program_changed(self) -> bool:
        """Return whether the program of `per: job` has started or ended since the last scan."""
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
                # The process is about to end, or is not readable.
                continue
            first, _ = self._seen.get(rank, (now, now))
            self._seen[rank] = first, now
            holders[rank] = held = [each for each in table if each.inode in own]
            self._ports.update(_port(each.local) for each in held if each.state == LISTEN)
            self._links[rank] |= self._names(held)
        self._note_memory(members)
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
        """Record connections also for ranks that listen at the other end and have not accepted them yet."""
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
        """Record the ports of closed connections whose ranks are unknown."""
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

    def _note_memory(self, members: Mapping[int, Collection[int]]) -> None:
        """Record memory that ranks share, until connections or memory join all ranks of this node."""
        if len({*groups_in(self._links).values()}) < 2:
            return
        holders: dict[str, set[int]] = {}
        for rank, pid in ((rank, pid) for rank, pids in members.items() for pid in pids):
            path = f"/proc/{pid}/maps"
            with contextlib.suppress(OSError), open(path, errors="replace") as file:
                for one, two in _SHARED.findall(file.read()):
                    holders.setdefault(f"{self._network}{_MEMORY}{one}:{two}", set()).add(rank)
        for name, ranks in holders.items():
            for rank in ranks if len(ranks) > 1 else ():
                self._links[rank].add(name)


def _members(
    everybody: Mapping[int, Process], ranks: Mapping[int, Sequence[int]], program: Program | None
) -> dict[int, set[int]]:
    """Return the pids of each rank, including daemons, which the agent has adopted."""
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
    """Return the rank in a process's environment; -1 without one."""
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
    """Return an id of this machine and network namespace, to tell loopback addresses apart."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()[:13] + os.readlink("/proc/self/ns/net")
    except OSError:
        return "unknown"
