"""A node: what can be done on it and to it."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster import node_boot, shadow
from cluster.daemons import Daemon
from cluster.place import Place
from cluster.processes import Process, wait_until
from cluster.programs import python_module
from cluster.settings import Settings, address, fast_address, node_name
from cluster.slurm_conf import slurmd_command

_PATIENCE_S = 20


@dataclass(frozen=True)
class Node:
    """One node, counted from 1."""

    number: int
    settings: Settings
    login: Place

    @property
    def name(self) -> str:
        """Its host name."""
        return node_name(self.number)

    @property
    def address(self) -> str:
        """Its address on the network that Slurm uses."""
        return address(self.number)

    @property
    def fast_address(self) -> str:
        """Its address on the fast network."""
        return fast_address(self.number)

    def exec(self, *command: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run a command on the node, past Slurm; options as of `Cluster.run`."""
        return self._place.run("inside", *command, **options)

    @contextmanager
    def without(self, folder: Path) -> Iterator[None]:
        """The node sees an empty folder there, which nobody can write to."""
        self._shadow("hide", folder)
        try:
            yield
        finally:
            self._shadow("show", folder)

    def administer(self, *command: str) -> None:
        """Run a program with privileges over the node, such as over its network.

        Raises:
            ClusterError: when it fails; what it said is in the node's log.
        """
        self._place.administer(*command, log=self.settings.logs / f"{self.name}.log")

    def processes(self) -> list[Process]:
        """Everything that runs on the node, with process ids as seen from here."""
        return self._place.processes()

    def pids(self) -> set[int]:
        """The process ids, as seen from here, of everything that runs on the node."""
        return {process.pid for process in self.processes()}

    def kill_slurmd(self) -> None:
        """Kill slurmd alone: jobs on the node live on, and the controller hears nothing of them."""
        self._slurmd.kill()

    def start_slurmd(self) -> None:
        """Start slurmd, which finds the jobs that still run."""
        self._slurmd.start()

    def power_off(self) -> None:
        """Take the node away at once, with everything on it."""
        self._place.first().kill()
        wait_until(lambda: self._place.find_first() is None, f"{self.name} ends", _PATIENCE_S)

    def power_on(self) -> None:
        """Start the node and slurmd on it.

        Raises:
            ClusterError: when slurmd does not come up.
        """
        boot = python_module(*self._place.module)
        self.login.administer(*boot, log=self.settings.logs / f"{self.name}.log")
        wait_until(lambda: bool(self._slurmd.processes()), f"slurmd on {self.name}", _PATIENCE_S)

    def _shadow(self, what: str, folder: Path) -> None:
        program = python_module(shadow.MODULE, what, str(folder))
        self._place.administer(*program, log=self.settings.logs / f"{self.name}.log")

    @property
    def _place(self) -> Place:
        folder = str(self.settings.folder)
        return Place(self.name, (node_boot.MODULE, folder, str(self.number)))

    @property
    def _slurmd(self) -> Daemon:
        log = self.settings.logs / f"{self.name}.log"
        return Daemon("slurmd", slurmd_command(self.number), self._place, log)
