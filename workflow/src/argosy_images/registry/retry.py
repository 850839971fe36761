"""Retry temporary failures with growing pauses."""

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event
from typing import TypeVar

from argosy_common.errors import ArgosyError

PAUSES_S = (1.0, 2.0, 4.0, 8.0)
"""Seconds between tries."""

LONGEST_WAIT_S = 120.0
"""Seconds of the longest accepted Retry-After; a longer one is an error."""

T = TypeVar("T")


class PassingError(ArgosyError):
    """A temporary failure of the registry.

    Args:
        wait: seconds to wait, from Retry-After.
    """

    def __init__(self, message: str, wait: float = 0.0) -> None:
        super().__init__(message)
        self.wait = wait


class UnreachableError(PassingError):
    """No response: no network, unknown host, or time-out."""


class UnusableProxyError(UnreachableError):
    """The environment names an unsupported or invalid proxy; a retry is useless."""


@dataclass(frozen=True)
class Patience:
    """A retry policy.

    Args:
        pauses: seconds between the tries.
        say: prints a message before each retry.
        stop: ends all pauses and retries.
    """

    pauses: tuple[float, ...] = PAUSES_S
    say: Callable[[str], None] = lambda line: None
    stop: Event = field(default_factory=Event)

    def retry(self, action: Callable[[], T]) -> T:
        """Call `action` until it returns, and return its result.

        Raises:
            PassingError: the last one, with the number of tries.
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
