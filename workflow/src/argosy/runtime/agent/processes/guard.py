"""A small process that outlives the agent: if the agent is killed, it ends the agent's ranks.

A container ends all of its processes with its first; without one, nothing would.
"""

from __future__ import annotations

import contextlib
import os
import signal


class Guard:
    """The agent's side: says which process groups to end."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe

    @classmethod
    def start(cls) -> Guard:
        """Fork the guard; to be called before there are threads."""
        reader, writer = os.pipe()
        if os.fork() == 0:
            os.close(writer)
            try:
                _watch(reader)
            finally:
                os._exit(0)
        os.close(reader)
        return cls(writer)

    def add(self, group: int) -> None:
        """End this process group, from now on, when the agent dies."""
        self._say(f"+{group}\n")

    def remove(self, group: int) -> None:
        """Leave this process group alone: it is gone, and its number may be given to another."""
        self._say(f"-{group}\n")

    def _say(self, word: str) -> None:
        # Without its guard a job can still go on.
        with contextlib.suppress(BrokenPipeError):
            os.write(self._pipe, word.encode())


def _watch(reader: int) -> None:
    # A session of its own and no shared descriptors: nobody waits for the guard. Schedulers that warn or
    # cancel signal every process of a job, while the ranks may go on for as long as their agent lets them.
    os.setsid()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    groups = set()
    with open(reader, encoding="ascii") as words:
        for word in words:
            if word[0] == "+":
                groups.add(int(word[1:]))
            else:
                groups.discard(int(word[1:]))
    for group in groups:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
