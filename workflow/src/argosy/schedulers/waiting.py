"""Words for whoever waits while a scheduler's command does not return."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from argosy.schedulers.base import Say

SILENCE_S = 30.0


@contextmanager
def speaking(say: Say, waits_for: str) -> Iterator[None]:
    """Say every SILENCE_S seconds what the block waits for, and for how long."""
    ended, began = threading.Event(), time.monotonic()

    def speak() -> None:
        while not ended.wait(SILENCE_S):
            say(f"waiting for {waits_for}, for {time.monotonic() - began:.0f} s")

    speaker = threading.Thread(target=speak, daemon=True)
    speaker.start()
    try:
        yield
    finally:
        ended.set()
        speaker.join()
