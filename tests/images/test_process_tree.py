"""How long what is asked to end may take; a shell stands for the engine, another for what runs inside."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from argosy_images.engines.container import REPEAT_S, STOP_GRACE_S

PROGRAM = """
import os, subprocess, sys
from argosy_images.engines.container import ended_with_us
inner = "trap 'sleep {seconds}; echo saved; exit' TERM; echo began; while :; do sleep 0.1; done"
process = subprocess.Popen(["sh", "-c", "sh -c \\"$0\\" {engine}", inner])
with ended_with_us(process, {patience}) as asked:
    os.write(1, b"listens\\n")
    process.wait()
print("asked" if asked.is_set() else "not asked")
"""

WAITS = "; :"
ENDS_FIRST = "& exec sleep 1"

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start() -> Start:
    """Start one that takes so many seconds to end, with so much patience."""

    def start(seconds: float, patience: float, engine: str = WAITS) -> subprocess.Popen[str]:
        program = PROGRAM.format(seconds=seconds, patience=patience, engine=engine)
        started = subprocess.Popen(
            [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True
        )
        assert started.stdout
        assert {started.stdout.readline() for _ in range(2)} == {"began\n", "listens\n"}
        return started

    return start


def said(started: subprocess.Popen[str]) -> list[str]:
    return started.communicate(timeout=60)[0].split()


@pytest.mark.slow
def test_it_has_as_long_as_it_was_promised_unless_it_is_asked_again(start: Start) -> None:
    slow = STOP_GRACE_S + 2
    usual, patient, told_twice = start(slow, 0), start(slow, 30), start(slow, 30)
    asked_again = start(2 * STOP_GRACE_S, 30)
    for each in (usual, patient, told_twice, asked_again):
        each.send_signal(signal.SIGTERM)
    # By the scheduler, and by what was told by it.
    time.sleep(0.3)
    told_twice.send_signal(signal.SIGTERM)
    time.sleep(REPEAT_S)
    asked_again.send_signal(signal.SIGTERM)
    assert said(usual) == ["asked"]
    assert said(patient) == said(told_twice) == ["saved", "asked"]
    assert said(asked_again) == ["asked"]


@pytest.mark.slow
def test_what_an_engine_leaves_that_ends_first_is_ended_too(start: Start) -> None:
    one = start(2 * STOP_GRACE_S, 0, ENDS_FIRST)
    one.send_signal(signal.SIGTERM)
    assert said(one) == ["asked"]
