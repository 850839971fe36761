"""Checkpoints of a run, and the warning that it is time for one; used through argosy_steps.

Each job of a run writes below a folder of its own, `checkpoints/<attempt>/`, so that one that
was given up and lives on can spoil nothing of its successor's.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import math
import os
import shutil
import signal
import tempfile
import threading
import time

from argosy_contract import layout

FOLDER = "ARGOSY_CHECKPOINTS"
RESTORED = "ARGOSY_RESTORED"
WARNED = "ARGOSY_WARNED"
"""Set where the experiment says that its program heeds warnings."""

KEPT = 2
"""Checkpoints of one job that are kept: the newest may be the one that is being written."""


_LOOK_INTERVAL = 1.0  # seconds
_SIGNALS = (signal.SIGUSR1, signal.SIGTERM)


class Warning:
    """SIGUSR1 from the agent, or the scheduler's SIGTERM to all processes: the job will be ended soon.

    The program's own handlers stay, also those that it sets later. The agent leaves a file as well, which
    is looked for once a second.
    """

    def __init__(self) -> None:
        self._seen = False
        self._looked = -math.inf
        run_dir, attempt = os.environ["ARGOSY_RUN_DIR"], os.environ["ARGOSY_ATTEMPT"]
        places = (
            (layout.ATTEMPTS, attempt, layout.WARNING),
            (layout.RECORDS, attempt, layout.WARNED),
        )
        self._files = [os.path.join(run_dir, *place) for place in places]
        self._handled = [number for number in _SIGNALS if _is_free(number)]
        for number in self._handled:
            signal.signal(number, self._take)
        atexit.register(self._ignore)

    @property
    def seen(self) -> bool:
        """Whether the warning has come."""
        now = time.monotonic()
        if not self._seen and now >= self._looked + _LOOK_INTERVAL:
            self._looked = now
            self._seen = any(map(os.path.exists, self._files))
        return self._seen

    def _take(self, number: int, frame: object) -> None:
        self._seen = True

    def _ignore(self) -> None:
        """Let a program that ends come to its end, in which Python gives up its handlers."""
        for number in self._handled:
            if signal.getsignal(number) == self._take:
                signal.signal(number, signal.SIG_IGN)

    @classmethod
    def of_this_process(cls) -> Warning | None:
        """Return the watch for a warning, in a rank whose run keeps checkpoints."""
        return cls() if os.environ.get(WARNED) else None


def _is_free(number: int) -> bool:
    """Return whether a signal has its default effect, and this thread may change that."""
    if threading.current_thread() is not threading.main_thread():
        return False
    # Python does not know what a library has set by itself.
    return signal.getsignal(number) is signal.SIG_DFL and not _is_set(number)


def _is_set(number: int) -> bool:
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as file:
            masks = [line.split()[1] for line in file if line.startswith(("SigCgt:", "SigIgn:"))]
        return any(int(mask, 16) >> (number - 1) & 1 for mask in masks)
    except (OSError, IndexError, ValueError):
        return False


class Checkpoint:
    """A folder that takes its place among the checkpoints when all in it has been written."""

    def __init__(self, step: int) -> None:
        self._step = step
        self._top = os.environ.get(FOLDER, "")
        self._folder = ""

    def __enter__(self) -> str:
        if self._top:
            os.makedirs(self._top, exist_ok=True)
        self._folder = tempfile.mkdtemp(prefix=".new-", dir=self._top or None)
        return self._folder

    def __exit__(self, kind: object, *error: object) -> None:
        # Outside Argosy nobody looks for it.
        if kind is not None or not self._top:
            shutil.rmtree(self._folder, ignore_errors=True)
            return
        self._describe()
        _sync_tree(self._folder)
        # Made for us alone until it is whole. By an open file, as every proot lets modes change.
        descriptor = os.open(self._folder, os.O_RDONLY)
        try:
            os.fchmod(descriptor, 0o777 & ~int(os.environ.get("ARGOSY_UMASK", "077"), 8))
        finally:
            os.close(descriptor)
        place = os.path.join(self._top, f"step-{self._step:09d}")
        shutil.rmtree(place, ignore_errors=True)
        os.rename(self._folder, place)
        older = sorted(name for name in os.listdir(self._top) if name.startswith("step-"))
        for name in older[:-KEPT]:
            shutil.rmtree(os.path.join(self._top, name), ignore_errors=True)

    def _describe(self) -> None:
        run_dir = os.environ["ARGOSY_RUN_DIR"]
        with open(os.path.join(run_dir, layout.RUN), "rb") as file:
            plan = hashlib.sha256(file.read()).hexdigest()
        content = {
            "schema_version": layout.SCHEMA_VERSION,
            "attempt": os.environ["ARGOSY_ATTEMPT"],
            "step": self._step,
            "plan": plan,
            "unix": time.time(),
        }
        with open(os.path.join(self._folder, layout.CHECKPOINT), "w", encoding="utf-8") as file:
            json.dump(content, file)


def _sync_tree(folder: str) -> None:
    """Write all to the disk: what is not there when the node dies was not saved."""
    for path, _, names in os.walk(folder):
        for name in names:
            descriptor = os.open(os.path.join(path, name), os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def restored_folder() -> str | None:
    """Return the checkpoint from which this job goes on; None at a fresh start."""
    return os.environ.get(RESTORED) or None


def restored_step() -> int:
    """Return how many steps were done when it was saved."""
    folder = restored_folder()
    if folder is None:
        return 0
    with open(os.path.join(folder, layout.CHECKPOINT), encoding="utf-8") as file:
        return int(json.load(file)["step"])
