"""The cluster as a whole: starting, using and stopping it."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from cluster import daemons, packages, processes, switch
from cluster.boot import boot, login_place, telling_lines, wait_until_idle
from cluster.daemons import Daemon
from cluster.errors import ClusterError
from cluster.node import Node
from cluster.offers import Offers
from cluster.place import ENVIRONMENT, system_environment
from cluster.programs import python_module
from cluster.settings import Settings

_STOP_S = 30


class Cluster:
    """A running cluster.

    Commands on the login side are processes of the host that see the cluster's network, host names and
    /etc/slurm. Nothing in the cluster reaches the world outside.
    """

    environment: Mapping[str, str] = ENVIRONMENT
    """What users of Slurm set; `run` and `popen` do."""

    def __init__(self, settings: Settings, owner: int | None = None) -> None:
        self.settings = settings
        self._owner = owner
        self._login = login_place(settings)
        self.controller: Daemon = daemons.controller(settings, self._login)
        self.munge: Daemon = daemons.munge(settings, self._login)

    @classmethod
    def start(
        cls,
        folder: Path,
        *,
        nodes: int = 4,
        accounting: bool = False,
        min_job_age_s: int = 300,
        grace_s: int = 10,
        message_timeout_s: int = 10,
        signal_at_preemption: bool = False,
        outlive: bool = False,
        offers: Offers | None = None,
        site_lines: str | None = None,
    ) -> "Cluster":
        """Start a cluster that keeps its files in the new `folder`, and wait until all nodes are idle.

        It ends with this process, unless it is to `outlive` it. With `signal_at_preemption` a job gets
        the signal of its --signal option when it is preempted, which is a site's choice.

        Raises:
            ClusterError: with what the logs say, when it does not come up; then nothing of it is left.
        """
        settings = Settings(
            folder.resolve(),
            nodes=nodes,
            accounting=accounting,
            min_job_age_s=min_job_age_s,
            grace_s=grace_s,
            message_timeout_s=message_timeout_s,
            signal_at_preemption=signal_at_preemption,
            outlive=outlive,
            offers=offers,
            site_lines=site_lines,
            layers=packages.layers(),
        )
        settings.make_folders()
        # The login side's first process has the one end: it ends when nobody has the other.
        end, owner = os.pipe()
        cluster = cls(settings, owner)
        try:
            boot(settings, end)
        except BaseException as problem:
            story = telling_lines(settings.logs)
            cluster.stop()
            if isinstance(problem, ClusterError):
                raise ClusterError("\n".join([str(problem), *story])) from problem
            raise
        finally:
            os.close(end)
        return cluster

    @classmethod
    def at(cls, folder: Path) -> "Cluster":
        """The cluster that runs in `folder`.

        Raises:
            ClusterError: when none does.
        """
        cluster = cls(Settings.read(folder.resolve()))
        cluster._login.first()
        return cluster

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def folder(self) -> Path:
        """Where its files are; the daemons' logs are in `log`."""
        return self.settings.folder

    @property
    def scratch(self) -> Path:
        """A folder in memory, another one on each node."""
        return self.settings.scratch

    @property
    def nodes(self) -> list[Node]:
        """All nodes."""
        return [self.node(number) for number in range(1, self.settings.nodes + 1)]

    def node(self, number: int) -> Node:
        """A node, counted from 1."""
        return Node(number, self.settings, self._login)

    def wait_until_idle(self) -> None:
        """Wait until no job runs and all nodes are up.

        Raises:
            ClusterError: when that does not come about within a minute.
        """
        wait_until_idle(self.settings, self._login)

    @contextlib.contextmanager
    def slow_network(self, delay_s: float, bytes_per_s: float) -> Iterator[None]:
        """The fast network's links have this delay, one way, and this rate, in each direction.

        Raises:
            ClusterError: when the switch does not come up.
        """
        arguments = (str(self.folder), str(delay_s), str(bytes_per_s))
        with (
            (self.settings.logs / "switch.log").open("a") as log,
            self._login.popen(
                "daemon",
                *python_module(switch.MODULE, *arguments),
                env=system_environment(),
                cwd="/",
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            ) as process,
        ):
            assert process.stdin and process.stdout
            if process.stdout.readline() != "ready\n":
                raise ClusterError("the switch of the fast network did not come up")
            try:
                yield
            finally:
                process.stdin.close()

    def run(self, *command: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run a command on the login side, as this user; standard output and error are kept apart.

        Options: `cwd`; `env`, on top of this process's environment; `input`, a text; `timeout` in
        seconds; `check=False` when it may fail; and those of `subprocess.Popen`.

        Raises:
            ClusterError: when the command fails and `check` is set, with what it said.
            subprocess.TimeoutExpired: when it takes too long; it is killed.
        """
        return self._login.run("login", *command, **options)

    def popen(self, *command: str | Path, **options: Any) -> subprocess.Popen[str]:
        """Start a command on the login side, as this user.

        The process that is returned becomes the command: no other stands between, so every signal,
        SIGKILL too, reaches the command itself. Options: `env` as of `run`, and
        those of `subprocess.Popen`.
        """
        return self._login.popen("login", *command, **options)

    def stop(self) -> None:
        """End the cluster with everything that still runs in it, and remove its folder.

        Raises:
            ClusterError: when something does not go away.
        """
        if first := self._login.find_first():
            network = processes.network_of(first)
            # The kernel kills the daemons and nodes with it; users' commands are processes of the host.
            first.kill()
            processes.wait_until(lambda: _none_left(network), "the cluster ends", _STOP_S)
        if self._owner is not None:
            os.close(self._owner)
            self._owner = None
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self.folder)


def _none_left(network: int) -> bool:
    left = processes.on_network(network)
    for process in left:
        process.kill()
    return not left
