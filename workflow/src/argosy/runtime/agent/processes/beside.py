"""A launcher's commands beside the program: started before the ranks, and ended after them."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from typing import Callable, Mapping, Sequence

from ..coordination.failure import OTHER, Failure, ended_by_signal, ended_with_code
from ..files import open_for_append
from ..rendezvous.torch_store import store_command
from ..settings import MeetingPoint, Settings, filled_words
from .children import Guard, end_sessions
from .launch import environment_of, start, workdir

_GRACE = 1.0  # seconds from SIGTERM to SIGKILL
# Seconds for the program to end after a command that ended with 0: it may have been asked to end.
_PATIENCE = 5.0
_EARLY = "; it has to run, in the foreground, until the program ends"


class Beside:
    """The commands of this node; `guard` kills them if the agent is killed."""

    def __init__(self, settings: Settings, guard: Guard) -> None:
        self._settings = settings
        self._guard = guard
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._ended: dict[str, float] = {}

    @property
    def pids(self) -> Sequence[int]:
        """Pids of the running commands."""
        return [each.pid for each in self._running.values()]

    @property
    def collectors(self) -> Mapping[int, Callable[[], object]]:
        """Callbacks that reap the commands, by pid."""
        return {each.pid: each.poll for each in self._running.values()}

    def start(self, meeting: MeetingPoint, store: socket.socket | None) -> None:
        """Start all commands, and torch's store on its listening socket. Raises StartError or OSError."""
        settings = self._settings
        commands = settings.run.beside or {}
        for words in (
            *(commands.get("head", ()) if settings.node == 0 else ()),
            *commands.get("each", ()),
        ):
            self._start(words[0], filled_words(settings, words, 0, meeting), meeting)
        if store:
            self._start("torch's store", store_command(settings, store), meeting, [store.fileno()])

    def _start(
        self, name: str, words: Sequence[str], meeting: MeetingPoint, inherited: Sequence[int] = ()
    ) -> None:
        settings, number = self._settings, len(self._running)
        log = open_for_append(self._log(number))
        try:
            process = start(
                words,
                {**environment_of(settings, 0, meeting), "ARGOSY_BESIDE": "1"},
                workdir(settings),
                settings.in_container,
                output=log,
                inherited=inherited,
            )
        finally:
            os.close(log)
        self._guard.add(process.pid)
        self._running[f"{number} {name}"] = process

    def failure(self) -> Failure | None:
        """Return the failure of a command that has ended by itself; call this repeatedly."""
        for name, process in self._running.items():
            code, now = process.poll(), time.monotonic()
            if code is None or (code == 0 and now < self._ended.setdefault(name, now) + _PATIENCE):
                continue
            how, _ = ended_by_signal(-code) if code < 0 else ended_with_code(code)
            number, _, command = name.partition(" ")
            log = os.path.basename(self._log(int(number)))
            cause = f"{command}, run beside the program by its launcher, ended: {how}"
            cause += f"{'' if code else _EARLY}; see {log}"
            return Failure(self._settings.node, None, cause, time.time(), OTHER)
        return None

    def stop(self) -> None:
        """End all commands: SIGTERM first, then SIGKILL."""
        for process in self._running.values():
            _send(process, signal.SIGTERM)
        deadline = time.monotonic() + _GRACE
        for process in self._running.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))
            end_sessions({process.pid})
            process.wait()
            self._guard.remove(process.pid)
        self._running = {}

    def _log(self, number: int) -> str:
        return os.path.join(self._settings.logs, f"beside-{self._settings.node}-{number}.log")


def _send(process: subprocess.Popen[bytes], number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
