"""The daemons as things that tests kill, stop and start."""

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cluster.errors import ClusterError
from cluster.place import Place
from cluster.processes import Process, wait_until
from cluster.settings import Settings
from cluster.slurm_conf import SLURM_CONF

_PATIENCE_S = 20


@dataclass(frozen=True)
class Daemon:
    """A daemon at a place."""

    name: str
    command: Sequence[str]
    place: Place
    log: Path

    def processes(self) -> list[Process]:
        """Its process, if it runs."""
        return [process for process in self.place.processes() if process.name == self.name]

    def start(self) -> None:
        """Start it, unless it runs.

        Raises:
            ClusterError: when it does not come up.
        """
        if self.processes():
            return
        self.place.administer(*self.command, log=self.log)
        wait_until(lambda: bool(self.processes()), f"{self.name} starts", _PATIENCE_S)

    def kill(self) -> None:
        """Kill it, and nothing that it started."""
        self._signal(signal.SIGKILL)
        wait_until(lambda: not self.processes(), f"{self.name} ends", _PATIENCE_S)

    def stop(self) -> None:
        """Have it end in order: a controller saves what it knows, which one that is killed may lose."""
        self._signal(signal.SIGTERM)
        wait_until(lambda: not self.processes(), f"{self.name} ends", _PATIENCE_S)

    def pause(self) -> None:
        """Make it accept connections and never answer."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Undo `pause`."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        running = self.processes()
        if not running:
            raise ClusterError(f"{self.name} is not running on {self.place.name}")
        for process in running:
            process.kill(number)


def controller(settings: Settings, login: Place) -> Daemon:
    """Slurm's controller."""
    return _daemon(settings, login, "slurmctld", "-f", SLURM_CONF)


def munge(settings: Settings, login: Place) -> Daemon:
    """The daemon that says who is who, the same one for all nodes."""
    files = settings.munge_socket.parent
    # --force: the folders above may belong to others or be writable by them.
    return _daemon(
        settings,
        login,
        "munged",
        "--force",
        "--num-threads=4",
        f"--socket={settings.munge_socket}",
        *(f"--{kind}-file={files / kind}" for kind in ("key", "seed", "pid", "log")),
    )


def accounting(settings: Settings, login: Place) -> Daemon:
    """Slurm's link to the database."""
    return _daemon(settings, login, "slurmdbd")


def _daemon(settings: Settings, login: Place, name: str, *options: str) -> Daemon:
    return Daemon(name, (name, *options), login, settings.logs / f"{name}.out")
