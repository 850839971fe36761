"""This node's connections to the head, its rendezvous, and two files that the head watches.

The batch script creates the warning file on the scheduler's signal; claim.py writes the run's owner
when the run is started again. Files reach agents in all launchers and containers; signals do not.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
from queue import SimpleQueue
from typing import TYPE_CHECKING, Callable, Collection, Mapping, Sequence

from ...contract import layout
from ...contract.files import number, read_bytes
from ..rendezvous.local_server import KvReplica, serve_ranks
from ..rendezvous.reserved_ports import listen_alone, reserve_port
from ..rendezvous.store import Rendezvous
from ..rendezvous.torch_store import can_serve
from ..settings import AGENT_STORE, NodePlace, Settings
from ..transport.messages import Order, Report
from ..transport.peers import Endpoint
from .coordinator import Coordinator
from .failure import OTHER, Failure, Finished, Sighting
from .heartbeat import NO_ANSWER, Heartbeat, Link, LocalLink, RemoteLink
from .meeting import Roll, Search
from .server import serve_head

if TYPE_CHECKING:
    from ..rendezvous.pmi import PmiServer

_PLACE = "/argosy/node{}"
_INTERVAL = 1.0  # seconds; one agent of the job looks at two files


def watch_files(settings: Settings, coordinator: Coordinator) -> None:
    """Watch the warning and the owner until another attempt has claimed the run."""
    # The job's script creates the first, an agent that receives SIGTERM the second.
    warnings = (settings.warning, settings.record(layout.WARNED))
    owner_file = os.path.join(settings.run_dir, layout.OWNER)
    while True:
        if any(map(os.path.exists, warnings)):
            coordinator.warn()
        with contextlib.suppress(OSError):
            owner = read_bytes(owner_file).decode("utf-8", "replace").strip()
            if owner not in ("", settings.attempt):
                cause = f"superseded: the run was started again as {owner}"
                coordinator.fail(Failure(0, None, cause, time.time(), OTHER))
                return
        time.sleep(_INTERVAL)


class Channel:
    """Exchange of reports and orders with the head; on node 0 also the head's server.

    Args:
        settings: the node's settings.
        say: prints a line.
        put: called from other threads with each order, with the `Sighting` of a lost head, and with
            failures that the PMI server detects.
        trouble: called with the cause if the rendezvous fails.
        accept: called on node 0 when every rank ended well; may return a failure of the job.
    """

    def __init__(
        self,
        settings: Settings,
        say: Callable[[str], None],
        *,
        put: Callable[[Order | Sighting | Failure], None],
        trouble: Callable[[str], None],
        accept: Callable[[], Failure | None],
    ) -> None:
        self._settings = settings
        self._accept = accept
        self._say = say
        self._put = put
        self._trouble = trouble
        self._pmi: PmiServer | None = None
        self._link: Link | None = None
        self._heartbeat: Heartbeat | None = None
        self._call_agents: Callable[[], None] = lambda: None
        self._coordinator: Coordinator | None = None
        self._reserved: dict[str, socket.socket] = {}
        self.store: socket.socket | None = None
        """The head's listening socket for torch's store; None: no process serves it."""
        self._rank_ports: list[socket.socket] = []
        self._rendezvous: Rendezvous | None = None
        self.rendezvous: Endpoint = ("", 0)
        """Address of this node's rendezvous, set by `open`."""

    def open(self, report: Report) -> None:
        """Start reporting and serving. Raises OSError if listening fails."""
        self._link = self._serve() if self._settings.node == 0 else RemoteLink(self._settings)
        search = Search(self._settings, self._say)
        self._heartbeat = Heartbeat(self._link, report, self._put, search)
        self._serve_ranks()
        self._heartbeat.start()

    def tell(self, report: Report, *, now: bool) -> None:
        """Send a report, now or with the next heartbeat."""
        if self._heartbeat:
            self._heartbeat.tell(report, now=now)

    @property
    def met(self) -> Collection[int]:
        """The ranks of this node that have met all others at the rendezvous."""
        return self._rendezvous.met if self._rendezvous else ()

    def places(self) -> Sequence[NodePlace] | None:
        """Return the addresses of all nodes, if the launcher uses them; None: some are missing yet."""
        settings = self._settings
        if not settings.needs_places or not self._rendezvous:
            return ()
        said = [self._rendezvous.get(_PLACE.format(node)) for node in range(settings.nodes)]
        if None in said:
            return None
        places = [json.loads(each) for each in said if each]
        return [NodePlace(address, tuple(ports)) for address, *ports in places]

    @property
    def pmi(self) -> Endpoint:
        """Address of this node's PMI server, set by `open`."""
        return self._pmi.endpoint if self._pmi else ("", 0)

    def failure(self, ended: Finished) -> Failure | None:
        """Return the failure of an MPI rank that ended with exit code 0, if any."""
        return self._pmi.failure(ended) if self._pmi else None

    @property
    def silence(self) -> str:
        """Duration and place of the job's silence; empty on nodes other than the head."""
        return self._coordinator.silence if self._coordinator else ""

    def close(self) -> None:
        """Stop reporting after the ranks' end; the head still answers other nodes."""
        if self._pmi:
            self._pmi.clean()
        if self._heartbeat:
            self._heartbeat.close()

    def take_leave(self) -> None:
        """Tell the head that this node is done; the head returns after the last node."""
        informed = Report(self._settings.node, ended=True, informed=True)
        with contextlib.suppress(*NO_ANSWER):
            if self._link:
                self._link.beat(informed)
        while self._coordinator and not self._coordinator.all_informed():
            time.sleep(0.02)

    def _serve(self) -> Link:
        settings = self._settings
        self._reserved = {name: reserve_port() for name in settings.head_ports}
        self._coordinator = Coordinator(
            settings.nodes,
            settings.start_timeout,
            accept=self._accept,
            changed=self._changed,
            hang_timeout=settings.run.hang_timeout_s,
            time_limit=_time_limit(settings),
            ports=None if settings.needs_store else _numbers(self._reserved),
        )
        self._call_agents = serve_head(settings, self._coordinator, self._say)
        Roll(settings, self._coordinator, self._say).start()
        _start(watch_files, settings, self._coordinator)
        if settings.needs_store:
            _start(self._offer_store, self._coordinator)
        return LocalLink(self._coordinator)

    def _offer_store(self, coordinator: Coordinator) -> None:
        """Listen for torch's store if the image can serve it, and set the ports of the program."""
        # Without a free port, rank 0 serves its store itself.
        with contextlib.suppress(OSError):
            self.store = listen_alone() if can_serve(self._settings) else None
        if self.store:
            self._reserved.update({"master_port": self.store, AGENT_STORE: self.store})
        coordinator.set_ports(_numbers(self._reserved))

    def _serve_ranks(self) -> None:
        settings = self._settings
        outbox: SimpleQueue[bytes] | None = SimpleQueue() if settings.nodes > 1 else None
        self._rendezvous = rendezvous = Rendezvous(settings.node, outbox)
        self.rendezvous = serve_ranks(settings, rendezvous, self._say)
        if settings.needs_rank_ports:
            self._rank_ports = [reserve_port() for _ in range(settings.ranks_per_node)]
        if settings.needs_places:
            place = [settings.address, *(each.getsockname()[1] for each in self._rank_ports)]
            rendezvous.put(_PLACE.format(settings.node), json.dumps(place).encode())
        if settings.needs_pmi:
            # Only runs with MPI pay for the slow import of asyncio.
            from ..rendezvous.pmi import PmiServer

            self._pmi = PmiServer(settings, rendezvous, self._say, self._put)
            self._pmi.start()
        if outbox is not None:
            KvReplica(
                settings, rendezvous, outbox, ordered=self._wake, trouble=self._trouble
            ).start()

    def _changed(self) -> None:
        self._wake()
        self._call_agents()

    def _wake(self) -> None:
        if self._heartbeat:
            self._heartbeat.wake()


def _start(work: Callable[..., None], *arguments: object) -> None:
    threading.Thread(target=work, args=arguments, daemon=True).start()


def _numbers(reserved: Mapping[str, socket.socket]) -> Mapping[str, int]:
    return {name: each.getsockname()[1] for name, each in reserved.items()}


def _time_limit(settings: Settings) -> float | None:
    """Return the monotonic time of the job's time limit, counted from its claim; None if unknown."""
    if settings.run.time_limit_s is None:
        return None
    claim = settings.files.read(layout.CLAIM)
    began = number(claim.get("unix"))
    if began is None:
        return None
    return time.monotonic() + began + settings.run.time_limit_s - time.time()
