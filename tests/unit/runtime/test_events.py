"""The supervisor's queue, in the main thread of a separate program, as in an agent."""

import subprocess

import pytest
from agent_job import PYTHON, RUNTIME

PROGRAM = """
import signal, sys, threading, time
sys.path.insert(0, {source!r})
from argosy.runtime.agent.events import EventQueue, SignalEvent
from argosy.runtime.agent.coordination.failure import Failure
events = EventQueue()
"""
# Signals arrive at any point of the wait, including its very end.
SIGNALS = """
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.00053, 0.00053)
end = time.monotonic() + 4
while time.monotonic() < end:
    assert events.get(0.001) is None
signal.setitimer(signal.ITIMER_REAL, 0)
print("all")
"""
HANDLER = """
signal.signal(signal.SIGALRM, lambda number, _: events.put(SignalEvent(number)))
signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
def tell(name):
    for number in range(20_000):
        events.put(Failure(0, None, f"{name} {number}", 0.0))
for name in "ab":
    threading.Thread(target=tell, args=(name,)).start()
causes = {"a": [], "b": []}
signals = 0
while len(causes["a"]) + len(causes["b"]) < 40_000 or signals < 100:
    event = events.get(5)
    if isinstance(event, SignalEvent):
        signals += 1
    else:
        name, number = event.cause.split()
        causes[name].append(int(number))
signal.setitimer(signal.ITIMER_REAL, 0)
assert causes == {"a": [*range(20_000)], "b": [*range(20_000)]}
print("all")
"""
ONE_LATE = """
late = Failure(0, None, "late", 0.0)
threading.Timer(0.5, events.put, [late]).start()
since = time.monotonic()
assert events.get(20) == late
assert time.monotonic() - since < 5
assert events.get(0) is None
print("all")
"""


def run(program: str) -> str:
    """Return the program's output; a program that blocks for ever is an error."""
    whole = PROGRAM.format(source=str(RUNTIME.parents[1])) + program
    return subprocess.run(
        [PYTHON, "-c", whole], capture_output=True, text=True, timeout=60, check=True
    ).stdout


@pytest.mark.slow
def test_a_signal_at_the_end_of_a_wait_does_not_make_it_endless() -> None:
    assert run(SIGNALS) == "all\n"


def test_what_threads_and_handlers_put_comes_once_and_in_their_order() -> None:
    assert run(HANDLER) == "all\n"


def test_an_event_ends_the_wait() -> None:
    assert run(ONE_LATE) == "all\n"
