"""Finds the program behind a launcher's `start` words, which execute or fork it.

Connections of the `start` words themselves do not count as the program's.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Mapping, Sequence

from ..hangs.processes import Process, command_line, family, with_children


@dataclass
class Program:
    """A program that is started once, on the head."""

    number: int
    """Its number among the processes that have to meet."""
    pid: int
    """Pid of the started process."""
    words: Sequence[str]
    """The `start` words, then the command."""
    before: int
    """Count of the `start` words."""
    roots: set[int] = field(default_factory=set)
    """Pids seen to run the program."""

    def not_yet(self, everybody: Mapping[int, Process]) -> set[int]:
        """Return the pids of the `start` words, without the program's."""
        started = family(dict(everybody), self.pid)
        self.roots.update(each.pid for each in started if self._is_begun(each.pid))
        own = {each.pid for root in self.roots for each in family(dict(everybody), root)}
        return {each.pid for each in started} - own

    def is_running(self) -> bool:
        """Return whether the program has started and not ended."""
        if self.roots:
            return any(os.path.exists(f"/proc/{root}") for root in self.roots)
        return any(map(self._is_begun, with_children(self.pid)))

    def _is_begun(self, pid: int) -> bool:
        """Return whether a process runs the command, perhaps by a script's interpreter."""
        if not self.before:
            return pid == self.pid
        name, *arguments = self.words[self.before :]
        found = command_line(pid)
        place = len(found) - 1 - len(arguments)
        return (
            place >= 0
            and found[place + 1 :] == arguments
            and _base(found[place]) == _base(name)
            and (place == 0 or _base(found[place - 1]) != _base(self.words[self.before - 1]))
        )


def _base(word: str) -> str:
    return os.path.basename(word)
