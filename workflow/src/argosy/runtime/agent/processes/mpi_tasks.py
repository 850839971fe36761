"""MPI tasks of the scheduler: each hands its variables and open files to its node's agent (mpi_task.py)."""

from __future__ import annotations

import array
import contextlib
import hmac
import json
import os
import re
import socket
import time
from dataclasses import dataclass
from typing import Mapping, Sequence

from ...contract import files, layout, mpi_task
from ..coordination.failure import EXIT, Failure
from ..settings import Settings
from .launch import StartError

# Seconds for all tasks to start, for one task to send its content, and for the scheduler to end the tasks
# after MPI_Abort.
_START_TIME, _PATIENCE, _SETTLING = 60.0, 1.0, 1.0
_LONGEST = 1 << 20
_SERVER = "PMIX_SERVER_URI"
_PORT = re.compile(r"\btcp[46]://[^;,]*:(\d+)")
_SAID = re.compile(r"^\S+: error: +(.+)", re.M)


@dataclass(frozen=True)
class MpiTask:
    """A task: its variables and open files, and the connection that keeps it running."""

    connection: socket.socket
    variables: Mapping[str, str]
    descriptors: Sequence[int]
    """Copies in this process; the variables contain their numbers."""

    @property
    def ports(self) -> set[int]:
        """Ports of the node's PMIx server, to which the rank connects."""
        named = (value for name, value in self.variables.items() if name.startswith(_SERVER))
        return {int(port) for value in named for port in _PORT.findall(value)}

    @property
    def has_ended(self) -> bool:
        """Whether the scheduler has ended the task."""
        try:
            return not self.connection.recv(1)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def release(self) -> None:
        """Close the copies of open files, which the rank has inherited."""
        for each in self.descriptors:
            os.close(each)


class MpiTasks:
    """The tasks of this node by local rank; none if the run uses no MPI of the scheduler."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._ranks = settings.local_ranks if settings.run.mpi else ()
        self._first = settings.node * settings.ranks_per_node
        self._listener: socket.socket | None = None
        self._deadline = 0.0
        self._tasks: dict[int, MpiTask] = {}

    def are_there(self) -> bool:
        """Return whether each rank has a task; call this repeatedly. Raises StartError or OSError."""
        if len(self._tasks) == len(self._ranks):
            return True
        if self._listener is None:
            self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self._listener.bind(mpi_task.address(self._settings.token, self._settings.node))
            self._listener.listen(len(self._ranks))
            self._listener.setblocking(False)
            self._deadline = time.monotonic() + _START_TIME
        with contextlib.suppress(BlockingIOError):
            while len(self._tasks) < len(self._ranks):
                self._take(self._listener.accept()[0])
            self._listener.close()
            return True
        if time.monotonic() > self._deadline:
            raise StartError(
                f"the scheduler started {len(self._tasks)} of {len(self._ranks)} tasks of MPI "
                f"({self._settings.run.mpi}) within {_START_TIME:.0f} s: {self._said()}"
            )
        return False

    def of(self, local_rank: int) -> MpiTask | None:
        """Return the task of a rank; None if the run uses no MPI of the scheduler."""
        return self._tasks.get(local_rank)

    @property
    def ports(self) -> set[int]:
        """Ports of the scheduler, to which ranks connect before they meet."""
        return {port for task in self._tasks.values() for port in task.ports}

    def settles(self, ended: float) -> bool:
        """Return whether the scheduler may still end tasks, if the last rank `ended` at this unix time.

        After MPI_Abort the scheduler ends all tasks, and a rank may run until then.
        """
        return bool(self._tasks) and time.time() < ended + _SETTLING

    def failure(self) -> Failure | None:
        """Return the failure of a task that ended: tasks run as long as this process."""
        if any(task.has_ended for task in self._tasks.values()):
            cause = "the scheduler ended tasks of MPI, as after MPI_Abort"
            return Failure(self._settings.node, None, cause, time.time(), EXIT)
        return None

    def _take(self, connection: socket.socket) -> None:
        connection.settimeout(_PATIENCE)
        received = array.array("i")
        try:
            data, more, _, _ = connection.recvmsg(
                _LONGEST, socket.CMSG_SPACE(2 * received.itemsize)
            )
            received.frombytes(b"".join(each for _, _, each in more))
            content = json.loads(data)
            own = mpi_task.proof(self._settings.token, self._settings.node)
            if not hmac.compare_digest(str(content["proof"]).encode(), own.encode()):
                raise ValueError("not a task of this job")
        except (OSError, ValueError, LookupError, TypeError):
            connection.close()
            for each in received:
                os.close(each)
            return
        connection.setblocking(False)
        local_rank, rank = content["local_rank"], content["rank"]
        if rank != self._first + local_rank or local_rank in self._tasks:
            raise StartError(
                f"the scheduler started task {rank} of MPI where rank {self._first + local_rank} is: "
                f"{self._settings.site_file}: leave out what distributes tasks"
            )
        variables = dict(content["variables"])
        for name, descriptor in zip(content["descriptors"], received):  # noqa: B905
            if name == mpi_task.CONNECTION:
                variables[name] = str(descriptor)
            elif not os.path.exists(variables[name]):
                variables[name] = f"/proc/self/fd/{descriptor}"
        self._tasks[local_rank] = MpiTask(connection, variables, list(received))

    def _said(self) -> str:
        """Return the last error in the job's log, which the host writes; without one, the log's path."""
        path = os.path.join(layout.LOGS, self._settings.attempt, layout.JOB_LOG)
        said = _SAID.findall(files.read_log(os.path.join(self._settings.run_dir, path)))
        return said[-1] if said else f"see {path}"
