"""Signs of life of what takes minutes."""

import time
from collections.abc import Callable

SAY_EVERY_S = 5.0

Say = Callable[[str], None]


def silent(line: str) -> None:
    """Say nothing."""


class Seldom:
    """Passes on a line every few seconds, and drops those between."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._said = time.monotonic()

    def __call__(self, line: str) -> None:
        """Say the line, if the last one was long enough ago."""
        if time.monotonic() - self._said >= SAY_EVERY_S:
            self._said = time.monotonic()
            self._say(line)
