"""This node's connections with the head, its rendezvous, and two files that the head looks at.

The batch script makes the file of the warning when the scheduler warns it; claim.py names the run's owner
when the run is started again. Files reach the agents through every launcher and container; signals do not.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
from typing import Callable, Collection, Mapping, Sequence

from ...contract import layout
from ...contract.files import number, try_object
from ..rendezvous.local_server import KvReplica, serve_ranks
from ..rendezvous.pmi import PmiServer
from ..rendezvous.reserved_ports import reserve_port
from ..rendezvous.store import Outbox, Rendezvous
from ..rendezvous.torch_store import listen_for_store
from ..settings import AGENT_STORE, NodePlace, Settings
from ..transport.messages import Order, Report
from ..transport.peers import Endpoint
from .coordinator import Coordinator
from .failure import OTHER, Failure, Finished, Sighting
from .heartbeat import NO_ANSWER, Heartbeat, Link, LocalLink, RemoteLink
from .meeting import Roll, Search
from .server import serve_head

_PLACE = "/argosy/node{}"
_INTERVAL = 1.0  # seconds; one agent of the job looks at two files


class Watch(threading.Thread):
    """Looks until the process ends.

    Args:
        warned: called once, in this thread, when the job should save its state and end.
        superseded: called once when the run belongs to another attempt.
    """

    def __init__(
        self,
        settings: Settings,
        warned: Callable[[], None],
        superseded: Callable[[Failure], None],
    ) -> None:
        super().__init__(name="watch", daemon=True)
        self._attempt = settings.attempt
        # The job's script makes the one, an agent that was sent SIGTERM the other.
        self._warnings = (settings.warning, settings.record(layout.WARNED))
        self._owner = os.path.join(settings.run_dir, layout.OWNER)
        self._warned: Callable[[], None] | None = warned
        self._superseded = superseded

    def run(self) -> None:
        """Run the thread."""
        while True:
            if self._warned and any(map(os.path.exists, self._warnings)):
                self._warned()
                self._warned = None
            owner = self._read_owner()
            if owner not in (None, self._attempt):
                cause = f"superseded: the run was started again as {owner}"
                self._superseded(Failure(0, None, cause, time.time(), OTHER))
                return
            time.sleep(_INTERVAL)

    def _read_owner(self) -> str | None:
        try:
            with open(self._owner, encoding="utf-8") as file:
                return file.read().strip() or None
        except OSError:
            return None


class Channel:
    """Reports and orders; on node 0 also the head's side of them, for all nodes.

    Args:
        heard: called with each order, from another thread.
        lost: called when the head is given up, as `Heartbeat` describes it.
        trouble: called with the cause when the ranks' rendezvous cannot go on.
        failed: called with the failure of a rank that its PMI server knows of.
        accept: asked on node 0 when every rank ended well; a failure from it fails the job.
    """

    def __init__(
        self,
        settings: Settings,
        say: Callable[[str], None],
        *,
        heard: Callable[[Order], None],
        lost: Callable[[Sighting], None],
        trouble: Callable[[str], None],
        failed: Callable[[Failure], None],
        accept: Callable[[], Failure | None],
    ) -> None:
        self._settings = settings
        self._accept = accept
        self._say = say
        self._heard = heard
        self._lost = lost
        self._trouble = trouble
        self._failed = failed
        self._pmi: PmiServer | None = None
        self._link: Link | None = None
        self._heartbeat: Heartbeat | None = None
        self._call_agents: Callable[[], None] = lambda: None
        self._coordinator: Coordinator | None = None
        self._reserved: dict[str, socket.socket] = {}
        self.store: socket.socket | None = None
        """Where torch's store is to be served: on the head, if the launcher asks for that and it can be."""
        self._rank_ports: list[socket.socket] = []
        self._rendezvous: Rendezvous | None = None
        self.rendezvous: Endpoint = ("", 0)
        """Where this node's ranks find the others; known from `open` on."""

    def open(self, report: Report) -> None:
        """Begin to report, and to serve. Raises OSError when it cannot listen."""
        self._link = self._serve() if self._settings.node == 0 else RemoteLink(self._settings)
        self._heartbeat = Heartbeat(
            self._link,
            report,
            self._heard,
            self._lost,
            Search(self._settings, self._say),
        )
        self._serve_ranks()
        self._heartbeat.start()

    def tell(self, report: Report, *, now: bool) -> None:
        """Report this, now or with the next beat."""
        if self._heartbeat:
            self._heartbeat.tell(report, now=now)

    @property
    def met(self) -> Collection[int]:
        """The ranks of this node that have found all others at its rendezvous."""
        return self._rendezvous.met if self._rendezvous else ()

    def places(self) -> Sequence[NodePlace] | None:
        """Return where all nodes are, if the launcher asks for that; None: not all have said so."""
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
        """Where this node's ranks of MPI ask for their places; known from `open` on."""
        return self._pmi.endpoint if self._pmi else ("", 0)

    def failure(self, ended: Finished) -> Failure | None:
        """Return what is wrong with a rank of MPI although it ended with exit code 0."""
        return self._pmi.failure(ended) if self._pmi else None

    @property
    def silence(self) -> str:
        """How long the job is silent, and where, as the head knows; empty on other nodes."""
        return self._coordinator.silence if self._coordinator else ""

    def close(self) -> None:
        """Report no more, after the ranks' end; the head still answers the others."""
        if self._pmi:
            self._pmi.clean()
        if self._heartbeat:
            self._heartbeat.close()

    def take_leave(self) -> None:
        """Tell the head that it is needed no longer; the head waits for all to say so."""
        informed = Report(self._settings.node, ended=True, informed=True)
        with contextlib.suppress(*NO_ANSWER):
            if self._link:
                self._link.beat(informed)
        while self._coordinator and not self._coordinator.all_informed():
            time.sleep(0.02)

    def _serve(self) -> Link:
        settings = self._settings
        self._reserved = {name: reserve_port() for name in settings.head_ports}
        self.store = listen_for_store(settings) if settings.needs_store else None
        if self.store:
            self._reserved.update({"master_port": self.store, AGENT_STORE: self.store})
        self._coordinator = Coordinator(
            settings.nodes,
            settings.start_timeout,
            accept=self._accept,
            changed=self._changed,
            hang_timeout=settings.run.hang_timeout_s,
            time_limit=_time_limit(settings),
            ports=_numbers(self._reserved),
        )
        self._call_agents = serve_head(settings, self._coordinator, self._say)
        Watch(settings, self._coordinator.warn, self._coordinator.fail).start()
        Roll(settings, self._coordinator, self._say).start()
        return LocalLink(self._coordinator)

    def _serve_ranks(self) -> None:
        settings = self._settings
        outbox = Outbox() if settings.nodes > 1 else None
        self._rendezvous = rendezvous = Rendezvous(settings.node, outbox)
        self.rendezvous = serve_ranks(settings, rendezvous, self._say)
        if settings.needs_rank_ports:
            self._rank_ports = [reserve_port() for _ in settings.local_ranks]
        if settings.needs_places:
            place = [settings.address, *(each.getsockname()[1] for each in self._rank_ports)]
            rendezvous.put(_PLACE.format(settings.node), json.dumps(place).encode())
        if settings.needs_pmi:
            self._pmi = PmiServer(settings, rendezvous, self._say, self._failed)
            self._pmi.start()
        if outbox:
            KvReplica(
                settings, rendezvous, outbox, ordered=self._wake, trouble=self._trouble
            ).start()

    def _changed(self) -> None:
        self._wake()
        self._call_agents()

    def _wake(self) -> None:
        if self._heartbeat:
            self._heartbeat.wake()


def _numbers(reserved: Mapping[str, socket.socket]) -> Mapping[str, int]:
    return {name: each.getsockname()[1] for name, each in reserved.items()}


def _time_limit(settings: Settings) -> float | None:
    """Return when the job will be ended (monotonic); None where that is not known.

    Its script claims the run on this node as soon as it starts.
    """
    if settings.run.time_limit_s is None:
        return None
    claim = try_object(os.path.join(settings.attempt_dir, layout.CLAIM))
    began = number(claim.get("unix"))
    if began is None:
        return None
    return time.monotonic() + began + settings.run.time_limit_s - time.time()
