"""This node's connection with the head, wherever the head is."""

from __future__ import annotations

import contextlib
import http.client
import time
from typing import Callable

from .coordinator import Coordinator
from .failure import Failure
from .heartbeat import Heartbeat, Link, LocalLink, RefusedError, RemoteLink
from .measurements import nothing_measured
from .messages import Order, Report
from .server import Server
from .settings import Settings


class Channel:
    """Reports and orders; on node 0 also the head's side of them, for all nodes.

    Args:
        settings: who and where the nodes are.
        say: prints a line for the user.
        heard: called with each order, from another thread.
        lost: called when the head is given up, as `Heartbeat` describes it.
    """

    def __init__(
        self,
        settings: Settings,
        say: Callable[[str], None],
        heard: Callable[[Order], None],
        lost: Callable[[Failure, float], None],
    ) -> None:
        self._settings = settings
        self._say = say
        self._heard = heard
        self._lost = lost
        self._link: Link | None = None
        self._heartbeat: Heartbeat | None = None
        self._coordinator: Coordinator | None = None

    def open(self, report: Report) -> None:
        """Begin to report. Raises OSError when the head cannot listen."""
        self._link = self._serve() if self._settings.node == 0 else RemoteLink(self._settings)
        self._heartbeat = Heartbeat(
            self._link, report, self._heard, self._lost, self._settings.start_timeout
        )
        self._heartbeat.start()

    def tell(self, report: Report) -> None:
        """Report this now."""
        if self._heartbeat:
            self._heartbeat.tell(report)

    def close(self) -> None:
        """Report no more; the head still answers the others."""
        if self._heartbeat:
            self._heartbeat.close()

    def take_leave(self) -> None:
        """Tell the head that it is needed no longer; the head waits for all to say so."""
        informed = Report(self._settings.node, ended=True, informed=True)
        with contextlib.suppress(OSError, http.client.HTTPException, ValueError, RefusedError):
            if self._link:
                self._link.beat(informed)
        while self._coordinator and not self._coordinator.all_informed():
            time.sleep(0.02)

    def _serve(self) -> Link:
        settings = self._settings
        self._coordinator = Coordinator(
            settings.nodes,
            settings.start_timeout,
            accept=lambda: nothing_measured(settings),
            changed=self._wake,
        )
        Server(settings, self._coordinator, self._say).start()
        return LocalLink(self._coordinator)

    def _wake(self) -> None:
        if self._heartbeat:
            self._heartbeat.wake()
