"""Python stacks of the ranks' processes: those that python/argosy_stacks.py has registered, no others."""

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
from .processes import catches

VARIABLE = "ARGOSY_STACKS"
SIGNAL = signal.SIGRTMAX - 5
# Seconds that a dump may take, and without more of it until it counts as whole.
_DUMP_TIME, _PAUSE = 1.0, 0.05
_FRAME = re.compile(r'  File "(.*)", line (\d+) in (.*)')
_THREAD = re.compile(r"(Current thread|Thread) 0x")


@dataclass(frozen=True)
class Frame:
    """A place in a Python program."""

    file: str
    line: int
    function: str


@dataclass(frozen=True)
class Dump:
    """Stacks of one process: the text, and of its first thread the frames, the innermost first."""

    pid: int
    text: str
    frames: tuple[Frame, ...]


class StackFolder:
    """Where the processes of a node's ranks have their stacks written to, and how they are asked."""

    def __init__(self) -> None:
        self._path = ""

    def make(self) -> str:
        """Make the folder; its path, or an empty one where that is not possible."""
        with contextlib.suppress(OSError):
            self._path = tempfile.mkdtemp(prefix="argosy-stacks-")
        return self._path

    def remove(self) -> None:
        """Take it away."""
        if self._path:
            shutil.rmtree(self._path, ignore_errors=True)

    def registered(self) -> set[int]:
        """Return the processes that can be asked now."""
        return set(self._files())

    def ask(self, pids: Collection[int]) -> dict[int, Dump]:
        """Stacks of those of the processes that answer in time."""
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
    """Return the frames of the thread that faulthandler names last, which is the process's first."""
    frames: list[Frame] = []
    for line in text.splitlines():
        found = _FRAME.fullmatch(line)
        if found:
            frames.append(Frame(found.group(1), int(found.group(2)), found.group(3)))
        elif _THREAD.match(line):
            frames = []
    return tuple(frames)


def _has_open(pid: str, descriptor: str, path: str) -> bool:
    """Return whether the process would write there: else the signal might end it, or spoil another file."""
    try:
        if not os.path.samefile(f"/proc/{pid}/fd/{descriptor}", path):
            return False
    except OSError:
        return False
    return catches(int(pid), SIGNAL)


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
