"""The tasks that Slurm starts for a node's ranks, and that hand on what their MPI needs (slurm_task.py)."""

from __future__ import annotations

import array
import contextlib
import hmac
import json
import os
import socket
import time
from dataclasses import dataclass
from typing import Mapping, Sequence

from ...contract import files, layout, slurm_task
from ..coordination.failure import LOST, Failure
from ..settings import Settings
from .launch import StartError

# Seconds in which Slurm has to start them, and in which one says what it has.
_START_TIME, _PATIENCE = 60.0, 1.0
_LONGEST = 1 << 20
_SAID = "srun: error: "


@dataclass(frozen=True)
class Task:
    """A task of Slurm's: what it has to hand on, and the connection that keeps it."""

    connection: socket.socket
    variables: Mapping[str, str]
    descriptors: Sequence[int]
    """Open in this process too; variables name them by their numbers here."""

    @property
    def has_ended(self) -> bool:
        """Whether Slurm has ended it."""
        try:
            return not self.connection.recv(1)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def release(self) -> None:
        """Close what the rank has by now."""
        for each in self.descriptors:
            os.close(each)


class SlurmTasks:
    """The tasks of this node, by their rank's number on it; none where the run does without."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._listener: socket.socket | None = None
        self._deadline = 0.0
        self._tasks: dict[int, Task] = {}

    def are_there(self) -> bool:
        """Return whether each rank has one; to be called again and again. Raises StartError or OSError."""
        if self._settings.run.mpi is None or (self._tasks and self._listener is None):
            return True
        if self._listener is None:
            self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self._listener.bind(slurm_task.address(self._settings.token, self._settings.node))
            self._listener.listen(len(self._settings.local_ranks))
            self._listener.setblocking(False)
            self._deadline = time.monotonic() + _START_TIME
        with contextlib.suppress(BlockingIOError):
            while len(self._tasks) < len(self._settings.local_ranks):
                self._take(self._listener.accept()[0])
            self._listener.close()
            self._listener = None
            return True
        if time.monotonic() > self._deadline:
            raise StartError(self._why_missing())
        return False

    def of(self, local_rank: int) -> Task | None:
        """Return the task of a rank; None where the run does without."""
        return self._tasks.get(local_rank)

    def end(self, local_rank: int) -> None:
        """Let the task of a rank end, as the rank has."""
        if local_rank in self._tasks:
            self._tasks.pop(local_rank).connection.close()

    def failure(self) -> Failure | None:
        """Return what is wrong where Slurm has ended a task whose rank still runs."""
        for local_rank, task in self._tasks.items():
            if task.has_ended:
                rank = self._number(local_rank)
                cause = (
                    f"Slurm ended its task of `srun --mpi={self._settings.run.mpi}`{self._said()}"
                )
                return Failure(self._settings.node, rank, cause, time.time(), LOST)
        return None

    def _take(self, connection: socket.socket) -> None:
        connection.settimeout(_PATIENCE)
        try:
            data, more, _, _ = connection.recvmsg(_LONGEST, socket.CMSG_SPACE(4))
            received = array.array("i", b"".join(each for _, _, each in more))
            content = json.loads(data)
            own = slurm_task.proof(self._settings.token, self._settings.node)
            if not hmac.compare_digest(str(content["proof"]).encode(), own.encode()):
                raise ValueError("not a task of this job")
        except (OSError, ValueError, LookupError, TypeError):
            connection.close()
            return
        connection.setblocking(False)
        variables = dict(content["variables"])
        if received:
            variables["PMI_FD"] = str(received[0])
        local_rank = int(variables["SLURM_LOCALID"])
        number = self._number(local_rank)
        if variables["SLURM_PROCID"] != str(number):
            raise StartError(
                f"Slurm started task {variables['SLURM_PROCID']} where rank {number} is: "
                f"{self._settings.site_file}: srun: leave out what distributes tasks"
            )
        self._tasks[local_rank] = Task(connection, variables, list(received))

    def _number(self, local_rank: int) -> int:
        return self._settings.node * self._settings.ranks_per_node + local_rank

    def _why_missing(self) -> str:
        return (
            f"Slurm started {len(self._tasks)} of {len(self._settings.local_ranks)} tasks of "
            f"`srun --mpi={self._settings.run.mpi}` within {_START_TIME:.0f} s{self._said()}"
        )

    def _said(self) -> str:
        """Return what srun has said last; it speaks on the host."""
        path = os.path.join(layout.LOGS, self._settings.attempt, layout.JOB_LOG)
        said = ""
        with contextlib.suppress(OSError):
            for line in files.read_log(os.path.join(self._settings.run_dir, path)).splitlines():
                said = line[len(_SAID) :] if line.startswith(_SAID) else said
        return f": {said or path}"
