"""Python stacks of the ranks' processes that python/argosy_stacks.py has registered."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import tempfile
import time
from dataclasses import dataclass
from typing import Collection, Mapping

from ...contract.files import open_regular
from .processes import caught

VARIABLE = "ARGOSY_STACKS"
SIGNAL = signal.SIGRTMAX - 5
# Seconds to wait for a dump, and without new output until it counts as complete.
_DUMP_TIME, _PAUSE = 1.0, 0.05
_FRAME = re.compile(r'  File "(.*)", line (\d+) in (.*)')
_THREAD = re.compile(r"(Current thread|Thread) 0x")


@dataclass(frozen=True)
class Frame:
    """A frame of a Python stack."""

    file: str
    line: int
    function: str


@dataclass(frozen=True)
class Dump:
    """Stacks of one process: the whole text, and its first thread's frames, the innermost first."""

    pid: int
    text: str
    frames: tuple[Frame, ...]


class StackFolder:
    """Folder into which the ranks' processes write their stacks on request."""

    def __init__(self) -> None:
        self._path = ""

    def make(self) -> str:
        """Create the folder and return its path; empty if that fails."""
        with contextlib.suppress(OSError):
            self._path = tempfile.mkdtemp(prefix="argosy-stacks-")
        return self._path

    def remove(self) -> None:
        if self._path:
            shutil.rmtree(self._path, ignore_errors=True)

    def registered(self) -> set[int]:
        """Return the pids of processes that can dump their stacks."""
        return set(self._files())

    def ask(self, pids: Collection[int]) -> dict[int, Dump]:
        """Request stacks and return those that arrive in time, by pid."""
        files = {pid: path for pid, path in self._files().items() if pid in pids}
        before = {pid: _size(path) for pid, path in files.items()}
        for pid in files:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, SIGNAL)
        _wait_until_written(files, before)
        texts = {pid: _read(path, before[pid]) for pid, path in files.items()}
        return {pid: Dump(pid, text, first_thread(text)) for pid, text in texts.items() if text}

    def _files(self) -> dict[int, str]:
        found = {}
        with contextlib.suppress(OSError):
            for name in os.listdir(self._path or os.devnull):
                pid, _, descriptor = name.partition(".")
                path = os.path.join(self._path, name)
                if pid.isdigit() and descriptor.isdigit() and _has_open(pid, descriptor, path):
                    found[int(pid)] = path
        return found


def first_thread(text: str) -> tuple[Frame, ...]:
    """Parse the frames of the process's first thread, which faulthandler prints last."""
    frames: list[Frame] = []
    for line in text.splitlines():
        found = _FRAME.fullmatch(line)
        if found:
            frames.append(Frame(found.group(1), int(found.group(2)), found.group(3)))
        elif _THREAD.match(line):
            frames = []
    return tuple(frames)


def _has_open(pid: str, descriptor: str, path: str) -> bool:
    """Return whether the process handles the signal and has the file open: otherwise it might end."""
    try:
        if not os.path.samefile(f"/proc/{pid}/fd/{descriptor}", path):
            return False
    except OSError:
        return False
    return SIGNAL in caught(int(pid))


def _wait_until_written(files: Mapping[int, str], before: Mapping[int, int]) -> None:
    deadline = time.monotonic() + _DUMP_TIME
    sizes = dict(before)
    while time.monotonic() < deadline:
        time.sleep(_PAUSE)
        last, sizes = sizes, {pid: _size(path) for pid, path in files.items()}
        if all(sizes[pid] == last[pid] > before[pid] for pid in files):
            return


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _read(path: str, begin: int) -> str:
    try:
        with open(open_regular(path), encoding="ascii", errors="replace") as file:
            file.seek(begin)
            return file.read()
    except OSError:
        return ""
