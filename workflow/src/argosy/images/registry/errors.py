"""What may pass by itself, and so is tried again."""

from argosy.errors import ArgosyError


class PassingError(ArgosyError):
    """The registry could not answer this time.

    Args:
        wait: seconds that it asks to be left alone.
    """

    def __init__(self, message: str, wait: float = 0.0) -> None:
        super().__init__(message)
        self.wait = wait


class UnreachableError(PassingError):
    """Nobody answered at all: no network, no such host, or nothing but silence."""
