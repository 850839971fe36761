"""How many files and connections an agent may have open at once, and what they are for."""

from __future__ import annotations

import contextlib
import os
import resource
from typing import Iterator

from ..settings import Settings

CONNECTIONS = 3
"""Of each agent with the head."""
_ENOUGH = 1 << 16
_MOST_NEWCOMERS, _LEAST_NEWCOMERS = 512, 32
# Descriptors that no connection may take: the agent's own files, and those for each rank.
_OWN, _OWN_EACH = 128, 10
_FOR_A_START = 64
_SERVERS = 2  # in the process of the head


class OpenFiles:
    """This process's limit of open files, raised as far as may be needed; its ranks keep theirs."""

    def __init__(self) -> None:
        self._before = resource.getrlimit(resource.RLIMIT_NOFILE)
        soft, hard = (_ENOUGH if each == resource.RLIM_INFINITY else each for each in self._before)
        if soft < min(hard, _ENOUGH):
            with contextlib.suppress(OSError, ValueError):
                limits = (min(hard, _ENOUGH), self._before[1])
                resource.setrlimit(resource.RLIMIT_NOFILE, limits)

    @contextlib.contextmanager
    def as_before(self) -> Iterator[None]:
        """Have the limit that this process was started with, for a child that begins with it.

        Where more is open here than that allows, it stays as it is, and `give_back` comes a moment later.
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
        """Whether all that is open, and what a start opens, fits into the limit of before."""
        before = self._before[0]
        with contextlib.suppress(OSError):
            opened = len(os.listdir("/proc/self/fd"))
            return before == resource.RLIM_INFINITY or opened + _FOR_A_START < before
        return False

    def give_back(self, pid: int) -> None:
        """Give a child, which has just begun, the limit that this process was started with."""
        with contextlib.suppress(OSError, ValueError):
            resource.prlimit(pid, resource.RLIMIT_NOFILE, self._before)


def most_connections(settings: Settings, *, of_the_job: int) -> int:
    """Return how many connections a server may have: those of the job itself, and some of newcomers."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = _ENOUGH if limit == resource.RLIM_INFINITY else limit
    agents = CONNECTIONS * settings.nodes if settings.node == 0 else 0
    free = limit - _OWN - _OWN_EACH * settings.ranks_per_node - agents
    # Each of the servers may have as many, and one connection more before it closes another.
    return of_the_job + max(_LEAST_NEWCOMERS, min(_MOST_NEWCOMERS, free // _SERVERS - 1))
