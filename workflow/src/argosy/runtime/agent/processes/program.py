"""The program that a launcher's `start` ends in: the same process (launchers/ray.yaml), or a child of it.

The words of `start` may use the launcher's cluster themselves, which says nothing of the program.
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
    """Among those that have to meet."""
    pid: int
    """Of the process that was started."""
    words: Sequence[str]
    """It was started with these: those of `start`, then the command."""
    before: int
    """How many of them are those of `start`."""
    roots: set[int] = field(default_factory=set)
    """The processes that have become the program, as far as they were seen."""

    def not_yet(self, everybody: Mapping[int, Process]) -> set[int]:
        """Return the processes of `start` that are none of the program's."""
        started = family(dict(everybody), self.pid)
        self.roots.update(each.pid for each in started if self._is_begun(each.pid))
        own = {each.pid for root in self.roots for each in family(dict(everybody), root)}
        return {each.pid for each in started} - own

    def is_running(self) -> bool:
        """Return whether it has begun and not ended."""
        if self.roots:
            return any(os.path.exists(f"/proc/{root}") for root in self.roots)
        return any(map(self._is_begun, with_children(self.pid)))

    def _is_begun(self, pid: int) -> bool:
        """Return whether a process runs the command: a script's interpreter stands before its own words."""
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
