"""What a scheduler says in a job's log, and its launcher of a node that failed.

`ARGOSY_LOG_WORDS` is the path of the scheduler's program file that knows it, such as
schedulers/slurm/log_words.py; without one nothing is known.
"""

from __future__ import annotations

import importlib.util
import os
from typing import Pattern, Protocol, Sequence

VARIABLE = "ARGOSY_LOG_WORDS"


class LogWords(Protocol):
    """What such a program file has, and what goes without one."""

    NAME: str = "Argosy"
    """Who ends jobs, as messages call it."""
    TELLING: Sequence[Pattern[str]] = ()
    """Lines that say why a start failed; the group is what is worth repeating."""

    def why_ended(self, text: str) -> str | None:
        """Return why the log says that the job was ended."""
        return None

    def ended_at(self, text: str) -> float | None:
        """Return when the log first says that the job was ended: unix, as if the node's zone were UTC."""
        return None

    def failed_nodes(self, line: str) -> tuple[str, Sequence[int], int] | None:
        """Return host, numbers of nodes and exit code of a line that says that they failed."""
        return None

    def misses_node_after(self) -> float:
        """Return after how many seconds without an answer the scheduler gives up a node; 0: never."""
        return 0.0


class NoWords(LogWords):
    """Of jobs that are processes of this machine, and end by Argosy alone."""


def load() -> LogWords:
    """Return the words of the job's scheduler."""
    path = os.environ.get(VARIABLE, "")
    spec = importlib.util.spec_from_file_location("argosy_log_words", path)
    # A verdict without the scheduler's words is better than none.
    if spec is None or spec.loader is None or not os.path.isfile(path):
        return NoWords()
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
