"""Snakemake's timers: it looks for jobs again a second after it has started some, to keep its rate limit.

Python waits for each such timer when the process ends, though there is nothing left to look for.
"""

import threading


def end_timers() -> None:
    """End them; nothing happens where a later Snakemake calls them otherwise."""
    for thread in threading.enumerate():
        if isinstance(thread, threading.Timer):
            name = getattr(thread.function, "__qualname__", "")
            if "_schedule_reeval" in name:
                thread.cancel()
