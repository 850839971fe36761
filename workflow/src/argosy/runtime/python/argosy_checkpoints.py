"""Checkpoints of a run, and the warning before the job's end; used through argosy_steps.

Each attempt of a run writes to its own folder, `checkpoints/<attempt>/`, so that a lost job that still
runs cannot damage its successor's checkpoints.
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
from argosy_contract.files import FOLDER_MODE

FOLDER = "ARGOSY_CHECKPOINTS"
RESTORED = "ARGOSY_RESTORED"
WARNED = "ARGOSY_WARNED"
"""Set if the experiment has checkpoints."""

KEPT = 2
"""Number of checkpoints of one attempt to keep, while another may be written."""


_LOOK_INTERVAL = 1.0  # seconds
_SIGNALS = (signal.SIGUSR1, signal.SIGTERM)


class Warning:
    """Watches for the warning: SIGUSR1 from the agent, or the scheduler's SIGTERM to all processes.

    The program's own handlers stay, also later ones. The agent writes a file as well, which is checked once
    a second.
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
        """Whether the warning has arrived."""
        now = time.monotonic()
        if not self._seen and now >= self._looked + _LOOK_INTERVAL:
            self._looked = now
            self._seen = any(map(os.path.exists, self._files))
        return self._seen

    def _take(self, number: int, frame: object) -> None:
        self._seen = True

    def _ignore(self) -> None:
        """Ignore the signals at exit, when Python removes handlers."""
        for number in self._handled:
            if signal.getsignal(number) == self._take:
                signal.signal(number, signal.SIG_IGN)

    @classmethod
    def of_this_process(cls) -> Warning | None:
        """Return a watch for the warning, if the run has checkpoints."""
        return cls() if os.environ.get(WARNED) else None


def _is_free(number: int) -> bool:
    """Return whether a signal has its default action, and this thread may set a handler."""
    if threading.current_thread() is not threading.main_thread():
        return False
    # Libraries may have set a handler without Python.
    return signal.getsignal(number) is signal.SIG_DFL and not _is_set(number)


def _is_set(number: int) -> bool:
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as file:
            masks = [line.split()[1] for line in file if line.startswith(("SigCgt:", "SigIgn:"))]
        return any(int(mask, 16) >> (number - 1) & 1 for mask in masks)
    except (OSError, IndexError, ValueError):
        return False


class Checkpoint:
    """A folder that becomes a checkpoint when its `with` block ends."""

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
        # Outside Argosy, discard the folder.
        if kind is not None or not self._top:
            shutil.rmtree(self._folder, ignore_errors=True)
            return
        self._describe()
        _sync_tree(self._folder)
        # The folder was private until now. All versions of proot allow fchmod.
        descriptor = os.open(self._folder, os.O_RDONLY)
        try:
            os.fchmod(descriptor, FOLDER_MODE)
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
    """Flush all files to the disk, so that the checkpoint survives a crash of the node."""
    for path, _, names in os.walk(folder):
        for name in names:
            descriptor = os.open(os.path.join(path, name), os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def restored_folder() -> str | None:
    """Return the folder of the checkpoint to resume from; None for a fresh start."""
    return os.environ.get(RESTORED) or None


def restored_step() -> int:
    """Return the number of steps in that checkpoint; 0 for a fresh start."""
    folder = restored_folder()
    if folder is None:
        return 0
    with open(os.path.join(folder, layout.CHECKPOINT), encoding="utf-8") as file:
        return int(json.load(file)["step"])
