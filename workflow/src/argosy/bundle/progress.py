"""A word now and then on what is packed or unpacked."""

import time
from collections.abc import Callable

from argosy.units import amount

WORD_S = 10.0
"""Nobody waits for longer without a word, but for a single file."""


class Progress:
    """Tells how much is done of a total of bytes.

    Args:
        total: of bytes.
        say: is told.
    """

    def __init__(self, total: int, say: Callable[[str], None]) -> None:
        self._total = total
        self._say = say
        self._done = 0
        self._spoke = time.monotonic()

    def add(self, size: int) -> None:
        """Count what was done, and tell it where nothing was told for long."""
        self._done += size
        now = time.monotonic()
        if now - self._spoke > WORD_S:
            self._spoke = now
            self._say(f"{amount(self._done)} of {amount(self._total)}")
