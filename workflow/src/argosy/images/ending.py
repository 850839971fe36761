"""Ends a container with the process that runs it."""

import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def ended_with_us(process: subprocess.Popen[bytes]) -> Iterator[threading.Event]:
    """End the container when this process is asked to end, or leaves with an exception.

    Gives an event that is set when it was asked.
    """
    asked = threading.Event()

    def stop(number: int, frame: object) -> None:
        asked.set()
        threading.Thread(target=_end, args=(process.pid,), daemon=True).start()

    in_main = threading.current_thread() is threading.main_thread()
    previous = {
        number: signal.signal(number, stop)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        if in_main
    }
    try:
        yield asked
    finally:
        if process.poll() is None:
            _end(process.pid)
            process.wait()
        for number, handler in previous.items():
            signal.signal(number, handler)


def _end(udocker_pid: int) -> None:
    # Imported now: every node waits for a container to start, and psutil has no part in that.
    from argosy.images.killing import end_container

    end_container(udocker_pid)
