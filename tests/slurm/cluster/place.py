"""A place in the cluster: the login side or a node. Commands can be run there, its processes listed."""

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from cluster import processes
from cluster.errors import ClusterError
from cluster.processes import Process
from cluster.programs import python_module
from cluster.slurm_conf import SLURM_CONF

Kind = Literal["login", "inside", "daemon"]
"""How a command enters a place; see `enter.py`."""

ENVIRONMENT = {"SLURM_CONF": SLURM_CONF}
"""What users of the cluster set."""

_NOT_HANDED_ON = ("SLURM_", "SBATCH_", "SRUN_", "SALLOC_", "SQUEUE_", "SACCT_", "SINFO_")
_SYSTEM_PATH = "/usr/local/sbin:/usr/sbin:/sbin"


@dataclass(frozen=True)
class Place:
    """The namespaces of a first process, which runs a module of ours with known arguments."""

    name: str
    module: tuple[str, ...]

    def find_first(self) -> Process | None:
        """Its first process, if it runs."""
        return processes.first_of_namespace(self.module)

    def first(self) -> Process:
        """Its first process.

        Raises:
            ClusterError: when the place is not there.
        """
        found = self.find_first()
        if found is None:
            raise ClusterError(f"{self.name} is not running")
        return found

    def processes(self) -> list[Process]:
        """Everything that runs there now; nothing, if the place is not there."""
        first = self.find_first()
        return processes.on_network(processes.network_of(first)) if first else []

    def popen(
        self,
        kind: Kind,
        *command: str | Path,
        env: Mapping[str, str] | None = None,
        **options: Any,
    ) -> subprocess.Popen[str]:
        """Start a command there, with `env` on top of the caller's environment.

        It has started when this returns, so signals find the command and not the way to it.
        """
        first = self.first().pid
        reader, writer = os.pipe()
        try:
            process = subprocess.Popen(
                python_module("cluster.enter", kind, str(first), str(writer), *map(str, command)),
                env={**_environment(), **(env or {})},
                pass_fds=(writer,),
                **{"stdin": subprocess.DEVNULL, "text": True, **options},
            )
        finally:
            os.close(writer)
            with os.fdopen(reader, "rb") as started:
                started.read()
        return process

    def run(
        self,
        kind: Kind,
        *command: str | Path,
        timeout: float | None = None,
        check: bool = True,
        input: str | None = None,
        **options: Any,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command there and return its output.

        Raises:
            ClusterError: when it fails and `check` is set.
            subprocess.TimeoutExpired: when it takes longer than `timeout`; it is killed.
        """
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        if input is not None:
            pipes["stdin"] = subprocess.PIPE
        with self.popen(kind, *command, **{**pipes, **options}) as process:
            try:
                output, errors = process.communicate(input, timeout)
            except BaseException:
                process.kill()
                raise
        if check and process.returncode:
            raise ClusterError(_failure(self.name, command, process.returncode, errors or output))
        return subprocess.CompletedProcess(command, process.returncode, output, errors)

    def administer(self, *command: str | Path, log: Path) -> None:
        """Run a program with privileges over the place; it may stay in the background.

        Raises:
            ClusterError: when it fails; what it said is in `log`.
        """
        with log.open("a") as stream:
            env = system_environment()
            self.run("daemon", *command, env=env, cwd="/", stdout=stream, stderr=stream)


def system_environment() -> dict[str, str]:
    """The caller's, with the folders of system programs, which an ordinary user may not have."""
    own = _environment()
    return {**own, "PATH": f"{own.get('PATH', os.defpath)}:{_SYSTEM_PATH}"}


def _environment() -> dict[str, str]:
    """The caller's environment, less what another Slurm has put there."""
    own = {n: value for n, value in os.environ.items() if not n.startswith(_NOT_HANDED_ON)}
    return {**own, **ENVIRONMENT}


def _failure(place: str, command: tuple[str | Path, ...], status: int, text: str | None) -> str:
    words = " ".join(map(str, command))
    return f"{place}: {words!r} ended with status {status}: {(text or '').strip()[-2000:]}"
