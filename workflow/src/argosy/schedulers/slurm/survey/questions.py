"""Questions to Slurm's commands that may stay without an answer, and what was not learned then."""

import time
from collections.abc import Callable
from typing import TypeVar

from argosy.schedulers.slurm.commands import LateError, SlurmError, call

T = TypeVar("T")

ANSWER_S = 20.0
"""How long one answer may take."""


class Questions:
    """Asks until a time limit for all of them; what fails is noted in words.

    Args:
        limit_s: seconds for all questions together.
    """

    def __init__(self, limit_s: float) -> None:
        self._until = time.monotonic() + limit_s
        self.unknown: list[str] = []

    def ask(self, what: str, *command: str, read: Callable[[str], T]) -> T | None:
        """Return what `read` makes of an answer; None where there is none: `what` is noted as unknown."""
        try:
            return read(self.call(*command))
        except SlurmError as problem:
            self.unknown.append(f"{what} ({' '.join(command[:3])}: {problem})")
            return None

    def call(self, *command: str) -> str:
        """Return an answer. Raises SlurmError."""
        left = self._until - time.monotonic()
        if left <= 0:
            raise LateError("not asked: Slurm's other answers took too long")
        return call(*command, timeout_s=min(ANSWER_S, left))
