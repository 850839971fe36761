"""Messages of a scheduler and its launcher in a job's log.

`ARGOSY_LOG_WORDS` is the path of the scheduler's module that parses them, such as
schedulers/slurm/log_words.py. Without it, no messages are found.
"""

from __future__ import annotations

import importlib.util
import os
from typing import Pattern, Protocol, Sequence

VARIABLE = "ARGOSY_LOG_WORDS"


class LogWords(Protocol):
    """Interface of such a module, with defaults."""

    NAME: str = "Argosy"
    """Name of the scheduler in messages."""
    TELLING: Sequence[Pattern[str]] = ()
    """Patterns of lines with the cause of a failed start; the group captures the cause."""

    def why_ended(self, text: str) -> str | None:
        """Return the cause of the job's end by a log; None without one."""
        return None

    def why_killed(self, text: str) -> str:
        """Return why all processes of a node were killed, by a log; empty if unknown."""
        return ""

    def ended_at(self, text: str) -> float | None:
        """Return the first time of the job's end in a log: unix time, as if the node's zone were UTC."""
        return None

    def failed_nodes(self, line: str) -> tuple[str, Sequence[int], int] | None:
        """Parse a line about failed nodes: return their host, their numbers and the exit code."""
        return None

    def misses_node_after(self) -> float:
        """Return the seconds of silence after which the scheduler gives up a node; 0: never."""
        return 0.0


class NoWords(LogWords):
    """For jobs that are processes of this machine, without a scheduler."""


def load() -> LogWords:
    """Load the module of the job's scheduler."""
    path = os.environ.get(VARIABLE, "")
    spec = importlib.util.spec_from_file_location("argosy_log_words", path)
    # Without the module, the verdict lacks only the scheduler's messages.
    if spec is None or spec.loader is None or not os.path.isfile(path):
        return NoWords()
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
