"""Builds of an image in a process of their own, to be killed."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Builds:
    """Builds of containers/image of a project, by the command a user gives."""

    project: Path
    store: Path
    hurry: float = 1.0
    """Kill so much earlier: a machine that was busy when a whole build was timed is quicker now."""

    def whole(self) -> float:
        """How many seconds a build takes that nobody kills."""
        began = time.monotonic()
        assert self._start().wait() == 0
        return time.monotonic() - began

    def killed(self, before: float, moments: random.Random) -> bool:
        """Kill a build at some moment before so many seconds; whether it was not done yet.

        In the first fifth Python still loads its modules.
        """
        builder = self._start()
        time.sleep(self.hurry * moments.uniform(before / 5, before))
        was_running = self._kill(builder)
        if not was_running:
            self.hurry *= 0.9
        return was_running

    def killed_within(
        self, has_begun: Callable[[], bool], seconds: float, moments: random.Random
    ) -> bool:
        """Kill a build at some moment within so many seconds of what it has to begin before."""
        builder = self._start()
        while not has_begun() and builder.poll() is None:
            time.sleep(0.002)
        time.sleep(moments.uniform(0, seconds))
        return self._kill(builder)

    @staticmethod
    def _kill(builder: "subprocess.Popen[bytes]") -> bool:
        was_running = builder.poll() is None
        builder.send_signal(signal.SIGKILL)
        builder.wait()
        return was_running

    def _start(self) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [sys.executable, "-m", "argosy.cli", "image", "build", "image"],
            cwd=self.project,
            env={**os.environ, "ARGOSY_STORE": str(self.store)},
            stderr=subprocess.DEVNULL,
        )
