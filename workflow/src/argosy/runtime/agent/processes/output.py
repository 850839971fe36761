"""The ranks' output: copied to a log of each rank, and to the agent's output if a user watches.

Losses that are NaN or infinite, and Horovod's stall warnings, are detected on the way.
"""

from __future__ import annotations

import errno
import os
import re
import threading
import time
from typing import Callable

from ...contract.files import write_all
from ..files import open_for_append, write_cause

_QUICK = (b"nan", b"NaN", b"NAN", b"inf", b"Inf")
_COLOUR = re.compile(rb"\x1b\[[0-9;:]*m")
_LOSS = re.compile(
    rb"(?:loss(?!_?scal)|(?<![a-z])(?:nll|mse|mae|cost|ppl|perplexity)(?![a-z]))\w*[ \t\"':=()>\]-]*"
    rb"(?:(?:is|was|became|value|tensor|array|of)\b[ \t\"':=(\[-]*){0,3}"
    rb"[+-]?(nan|inf(?:inity)?)(?![a-z])",
    re.IGNORECASE,
)
# `best_loss = inf` is the start of a search for the minimum.
_OF_A_SEARCH = re.compile(rb"best|min|prev|init|last|old|lowest|thresh", re.IGNORECASE)
_NAME = 16  # bytes before `loss` that may qualify it
_LONGEST_TEXT = 100


class NotFiniteLosses:
    """Finds a rank's first loss that is NaN or infinite."""

    def __init__(self) -> None:
        self.found: dict[str, object] | None = None
        """The line (`text`) and the time (`at`, unix)."""

    def search(self, lines: list[bytes]) -> None:
        """Search new lines of the rank."""
        data = b"".join(lines)
        if self.found or not any(word in data for word in _QUICK):
            return
        data = _COLOUR.sub(b"", data)
        for match in _LOSS.finditer(data):
            start, end = match.span()
            name = data[max(0, start - _NAME) : start]
            if match[1][:1] in b"iI" and _OF_A_SEARCH.search(name):
                continue
            begin = max(data.rfind(b"\n", 0, start) + 1, end - _LONGEST_TEXT)
            text = data[begin:end].decode("utf-8", "replace").strip()
            self.found = {"text": text, "at": time.time()}
            return


_CHUNK = 1 << 16
# Longer lines are cut into pieces of this size, which bounds the memory.
MAX_LINE = 1 << 20
_STEPS_WORD = b"argosy_steps: "

Trouble = Callable[[str], None]


class Console:
    """The agent's standard output, shared by all threads.

    A closed pipe does not end the job. A full disk does: it is reported once to `trouble`.
    """

    def __init__(self, descriptor: int, trouble: Trouble) -> None:
        self._descriptor = descriptor
        self._trouble = trouble
        self._lock = threading.Lock()
        self._broken = False

    def say(self, text: str) -> None:
        """Write one of the agent's own lines."""
        self.write(f"argosy: {text}\n".encode())

    def write(self, data: bytes) -> None:
        """Write whole lines without interleaving."""
        with self._lock:
            if self._broken:
                return
            try:
                write_all(self._descriptor, data)
                return
            except OSError as error:
                self._broken = True
                gone = error.errno in (errno.EPIPE, errno.EIO, errno.EBADF)
                cause = write_cause(error, "the node's log (the agent's standard output)")
        if not gone:
            self._trouble(cause)


class LineSplitter:
    """Splits a stream of bytes into lines, including the newlines."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._length = 0

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that `data` completes."""
        self._parts.append(data)
        self._length += len(data)
        if b"\n" not in data and self._length < MAX_LINE:
            return []
        *lines, rest = b"".join(self._parts).split(b"\n")
        pieces = [line + b"\n" for line in lines]
        while len(rest) >= MAX_LINE:
            end = whole_characters(rest, MAX_LINE)
            pieces.append(rest[:end] + b"\n")
            rest = rest[end:]
        self._parts, self._length = [rest], len(rest)
        return pieces

    @property
    def unfinished(self) -> bytes:
        """The first bytes of an incomplete line; empty: there is none."""
        return next((part[:1] for part in self._parts if part), b"")

    def rest(self) -> list[bytes]:
        """Return the rest after the last newline, as a line."""
        rest = b"".join(self._parts)
        self._parts, self._length = [], 0
        return [rest + b"\n"] if rest else []


def whole_characters(data: bytes, end: int) -> int:
    """Return the last position up to `end` between two UTF-8 characters."""
    place = end
    while place > end - 4 and place < len(data) and data[place] & 0xC0 == 0x80:
        place -= 1
    return place if place > end - 4 else end


class OutputPump(threading.Thread):
    """Reads one rank's output from its pipe to the end.

    Args:
        rank: the rank's number.
        pipe: the descriptor to read from; the pump closes it.
        log_path: the file for the raw output.
        console: destination of lines with the rank's number as prefix; None: only the log.
        trouble: called with the cause if the log cannot be written.
        lines_seen: called with new lines; each state of a progress bar is a line.
    """

    def __init__(
        self,
        rank: int,
        pipe: int,
        log_path: str,
        *,
        console: Console | None,
        trouble: Trouble,
        lines_seen: Callable[[list[bytes]], None] | None = None,
    ) -> None:
        super().__init__(name=f"output-{rank}", daemon=True)
        self._prefix = b"[%d] " % rank
        self._pipe = pipe
        self._log_path = log_path
        self._log: int | None = None
        self._console = console
        self._trouble = trouble
        self._lines_seen = lines_seen
        self._splitter = LineSplitter()
        self._of_console = LineSplitter()
        self.stall = StallWarnings()
        self.losses = NotFiniteLosses()
        self.words = 0
        """How often the program has printed something."""
        self.steps_word = ""
        """The step recorder's last error message, if any."""

    def run(self) -> None:
        self._file(b"")
        while data := os.read(self._pipe, _CHUNK):
            self._file(data)
            lines = self._splitter.feed(data.replace(b"\r", b"\n"))
            self.words += self.stall.take(lines, self._splitter.unfinished)
            self._search(lines)
            if self._console:
                self._show(self._of_console.feed(data))
        self._search(self._splitter.rest())
        self._show(self._of_console.rest())
        os.close(self._pipe)
        if self._log is not None:
            os.close(self._log)

    def _file(self, data: bytes) -> None:
        # If the log fails, the pipe is still read: otherwise the rank would block.
        if not self._log_path:
            return
        try:
            if self._log is None:
                self._log = open_for_append(self._log_path)
            write_all(self._log, data)
        except OSError as error:
            self._trouble(write_cause(error, self._log_path))
            self._log_path = ""

    def _search(self, lines: list[bytes]) -> None:
        if not lines:
            return
        self.losses.search(lines)
        for line in lines:
            if line.startswith(_STEPS_WORD):
                self.steps_word = line.decode("utf-8", "replace").strip()
        if self._lines_seen:
            self._lines_seen(lines)

    def _show(self, lines: list[bytes]) -> None:
        if self._console and lines:
            self._console.write(b"".join(self._prefix + line for line in lines))


_BEGIN = re.compile(rb"\[[^]]*stall_inspector\.cc:\d+\] One or more tensors were submitted")
_MARK = b"stall_inspector.cc"
_SAME_LINE, _RANK = b"Missing ranks:", re.compile(rb"(\d+)!?: \[(.*)\]")
_LONGEST = 120
# Seconds for which a warning is valid: Horovod repeats it while ranks are missing.
_FRESH = 90.0


class StallWarnings:
    """Finds Horovod's newest stall warning in a rank's output."""

    def __init__(self) -> None:
        self._inside = False
        self._missing: dict[int, str] = {}
        self._at = 0.0

    def take(self, lines: list[bytes], rest: bytes) -> bool:
        """Return whether new lines, or the `rest` after them, have anything besides warnings."""
        if not self._inside and _MARK not in b"".join(lines):
            said = lines
        else:
            said = [line for line in lines if not self._is_of_warning(line.strip())]
        # Horovod writes a warning in pieces; a progress bar does not end its line either.
        unfinished = rest and not self._inside and not rest.startswith(b"[")
        return bool(said or unfinished)

    @property
    def text(self) -> str:
        """The missing ranks, such as `rank 1 has not submitted allreduce.x`; empty: none."""
        missing = {rank: self._missing[rank] for rank in self.missing}
        parts = [f"rank {rank} has not submitted {names}" for rank, names in missing.items()]
        return "; ".join(parts[:4])

    @property
    def missing(self) -> tuple[int, ...]:
        """The missing ranks of a recent warning."""
        return tuple(self._missing) if time.monotonic() < self._at + _FRESH else ()

    def _is_of_warning(self, line: bytes) -> bool:
        if _BEGIN.match(line):
            self._inside, self._missing = True, {}
            return True
        found = _RANK.fullmatch(line) if self._inside else None
        if found:
            names = found.group(2).decode("ascii", "replace")
            self._missing[int(found.group(1))] = names[:_LONGEST]
            self._at = time.monotonic()
            return True
        if self._inside and line.startswith(_SAME_LINE):
            return True
        self._inside = False
        return False

    def forget(self) -> None:
        """Discard the warning: the missing ranks have arrived."""
        self._missing = {}
