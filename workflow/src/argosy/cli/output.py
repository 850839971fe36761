"""How commands tell what they do."""

import sys


def say(line: str) -> None:
    """A line of progress, on standard error: what a command gives is on standard output."""
    print(line, file=sys.stderr)
