"""Print a build's progress: one line for each step, and a line every 20 s while a step runs."""

import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from argosy_common.errors import plain

SIGN_OF_LIFE_S = 20.0
"""Seconds between two lines about a long step if the output is no terminal."""

LONGEST_LINE = 10_000
"""Characters of a line kept for error messages."""


class Progress:
    """Writes progress to standard error, and the steps' output to a log."""

    def __init__(self, log: BinaryIO) -> None:
        self.console = Console(file=sys.stderr, highlight=False)
        self.log = log
        self.last_lines: deque[str] = deque(maxlen=12)
        self._partial = ""

    def say(self, message: str) -> None:
        """Write one line to the screen and the log."""
        self.console.print(escape(plain(message)), soft_wrap=True)
        self.log.write(f"# {message}\n".encode(errors="backslashreplace"))

    def output(self, data: bytes) -> None:
        """Log a step's output, and keep its last lines for error messages."""
        self.log.write(data)
        self.log.flush()
        text = self._partial + data.decode(errors="replace")
        *lines, rest = text.split("\n")
        # A program may print an endless line.
        self._partial = rest[-LONGEST_LINE:]
        for line in lines:
            shown = plain(line.rstrip("\r").rpartition("\r")[2]).strip()
            if shown:
                self.last_lines.append(shown)

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        """Show a running step, its time and its last line of output."""
        self.last_lines.clear()
        title = plain(title)
        started = time.monotonic()
        done = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(title, started, done), daemon=True)
        self.log.write(f"# {title}\n".encode())
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()
        self.console.print(Text(f"{title}  {time.monotonic() - started:.1f} s"), soft_wrap=True)

    def _watch(self, title: str, started: float, done: threading.Event) -> None:
        if self.console.is_terminal:
            with self.console.status(self._status_line(title, started)) as status:
                while not done.wait(0.5):
                    status.update(self._status_line(title, started))
            return
        while not done.wait(SIGN_OF_LIFE_S):
            self.console.print(self._sign_of_life(title, started), soft_wrap=True)

    def _status_line(self, title: str, started: float) -> Text:
        """Return a line that fits beside the spinner: a wrapped line would flicker."""
        line = self._sign_of_life(title, started)
        line.truncate(self.console.width - 3, overflow="ellipsis")
        return line

    def _sign_of_life(self, title: str, started: float) -> Text:
        last = self.last_lines[-1] if self.last_lines else ""
        return Text(f"{title}  {time.monotonic() - started:.0f} s … {last[:100]}")
