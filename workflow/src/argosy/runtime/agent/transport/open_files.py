"""Limits of an agent's open files and connections."""

from __future__ import annotations

import contextlib
import os
import resource
from typing import Iterator

from ..settings import Settings

CONNECTIONS = 3
"""Connections of each agent to the head."""
_ENOUGH = 1 << 16
_MOST_NEWCOMERS, _LEAST_NEWCOMERS = 512, 32
# Descriptors reserved for the agent's own files, and for each rank.
_OWN, _OWN_EACH = 128, 10
_FOR_A_START = 64
_SERVERS = 2  # of the head's agent


class OpenFiles:
    """Raises this process's limit of open files; its ranks keep the old limit."""

    def __init__(self) -> None:
        self._before = resource.getrlimit(resource.RLIMIT_NOFILE)
        soft, hard = (_ENOUGH if each == resource.RLIM_INFINITY else each for each in self._before)
        if soft < min(hard, _ENOUGH):
            with contextlib.suppress(OSError, ValueError):
                limits = (min(hard, _ENOUGH), self._before[1])
                resource.setrlimit(resource.RLIMIT_NOFILE, limits)

    @contextlib.contextmanager
    def as_before(self) -> Iterator[None]:
        """Restore the old limit while a child starts, if this process's open files fit into it.

        Otherwise `give_back` lowers the child's limit after its start.
        """
        raised = resource.getrlimit(resource.RLIMIT_NOFILE)
        lowered = self._has_room()
        if lowered:
            resource.setrlimit(resource.RLIMIT_NOFILE, self._before)
        try:
            yield
        finally:
            if lowered:
                resource.setrlimit(resource.RLIMIT_NOFILE, raised)

    def _has_room(self) -> bool:
        """Return whether the open files, and those of a start, fit into the old limit."""
        before = self._before[0]
        with contextlib.suppress(OSError):
            opened = len(os.listdir("/proc/self/fd"))
            return before == resource.RLIM_INFINITY or opened + _FOR_A_START < before
        return False

    def give_back(self, pid: int) -> None:
        """Set the old limit for a child."""
        with contextlib.suppress(OSError, ValueError):
            resource.prlimit(pid, resource.RLIMIT_NOFILE, self._before)


def most_connections(settings: Settings, *, of_the_job: int) -> int:
    """Return a server's limit of connections: those of the job, and some from unknown peers."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = _ENOUGH if limit == resource.RLIM_INFINITY else limit
    agents = CONNECTIONS * settings.nodes if settings.node == 0 else 0
    free = limit - _OWN - _OWN_EACH * settings.ranks_per_node - agents
    # Each server may have as many, and one more before it closes another.
    return of_the_job + max(_LEAST_NEWCOMERS, min(_MOST_NEWCOMERS, free // _SERVERS - 1))
