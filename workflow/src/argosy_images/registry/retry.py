"""Trying again what may pass by itself, with pauses that grow."""

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event
from typing import TypeVar

from argosy_common.errors import ArgosyError

PAUSES_S = (1.0, 2.0, 4.0, 8.0)
"""Between the tries of one thing, of which there is one more."""

LONGEST_WAIT_S = 120.0
"""Longest wait that a registry may ask for; a longer one is an error."""

T = TypeVar("T")


class PassingError(ArgosyError):
    """The registry could not answer this time.

    Args:
        wait: seconds that it asks to be left alone.
    """

    def __init__(self, message: str, wait: float = 0.0) -> None:
        super().__init__(message)
        self.wait = wait


class UnreachableError(PassingError):
    """No answer at all: no network, no such host, or a time-out."""


class UnusableProxyError(UnreachableError):
    """The environment names a proxy that we cannot speak to, however often it is tried."""


def _say_nothing(line: str) -> None:
    pass


@dataclass(frozen=True)
class Patience:
    """How often something is tried.

    Args:
        pauses: seconds between the tries.
        say: is told of each try that failed, when another one follows.
        stop: ends all pauses, and with them the tries.
    """

    pauses: tuple[float, ...] = PAUSES_S
    say: Callable[[str], None] = _say_nothing
    stop: Event = field(default_factory=Event)

    def with_it(self, action: Callable[[], T]) -> T:
        """Return what `action` returns at last.

        Raises:
            PassingError: of the same kind as the last one, saying how often it was tried.
        """
        for number in range(1, len(self.pauses) + 2):
            try:
                return action()
            except PassingError as problem:
                left = self.pauses[number - 1 :]
                is_final = isinstance(problem, UnusableProxyError) or problem.wait > LONGEST_WAIT_S
                if not left or is_final or self.stop.is_set():
                    times = f" (tried {number} times)" if number > 1 else ""
                    raise type(problem)(f"{problem}{times}", problem.wait) from None
                pause = max(left[0], problem.wait)
                self.say(f"{problem}; trying again in {pause:.0f} s")
                self.stop.wait(pause)
        raise AssertionError("the last try returns or raises")
