"""A signal from outside reaches each process of a job: a rank that ends for it has not failed."""

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from agent_job import PYTHON, Job

from argosy.runtime.agent.coordination.coordinator import judge
from argosy.runtime.agent.coordination.failure import (
    EXIT,
    LOST,
    OTHER,
    SIGNAL,
    VANISHED,
    Failure,
    Sighting,
)
from argosy.runtime.agent.status import FAILED, INTERRUPTED

CHECKPOINTS = {"warning_s": 60, "requeues": 3}
LOADS = """
# As the loader of PyTorch does: the death of a worker is an exception of the program.
import multiprocessing, os, signal, sys, time
def die(number, frame):
    raise RuntimeError("worker is killed by signal: Terminated")
signal.signal(signal.SIGUSR1, lambda number, frame: None)
signal.signal(signal.SIGTERM, lambda number, frame: None)
worker = os.fork()
if not worker:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    time.sleep(30)
signal.signal(signal.SIGCHLD, die)
print("ready", flush=True)
time.sleep(30)
"""
WAITS = "import time; print('ready', flush=True); time.sleep(30)"
LOSES = """
import os, sys, time
print("ready", flush=True)
if os.environ["ARGOSY_RANK"] == "0":
    time.sleep(30)
time.sleep(3)
sys.exit(3)
"""


def parents() -> dict[int, int]:
    """The parent of each process of this machine."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            found[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
    return found


def family(pid: int) -> list[int]:
    """The processes that have come from one, the newest first."""
    known = parents()
    below = [each for child, parent in known.items() if parent == pid for each in family(child)]
    return [*below, pid]


def end_from_outside(one: Job, number: int, *nodes: int, agents_first: bool = True) -> None:
    """Send a signal to all processes of these nodes, as Slurm does to those of a step."""
    pids = [pid for node in nodes for pid in family(one.agents[node].pid)]
    for pid in sorted(pids, reverse=not agents_first):
        # A shell ends with its child.
        with suppress(ProcessLookupError):
            os.kill(pid, number)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("agents_first", [True, False])
@pytest.mark.parametrize(
    "program",
    [LOADS, WAITS, ["bash", "-c", f'{PYTHON} -c "{WAITS}"; exit $?']],
    ids=["loader", "deaf", "shell"],
)
def test_a_rank_that_fails_for_it_is_interrupted(
    job: Any, program: Any, agents_first: bool, number: int
) -> None:
    one = job(program, checkpoints=CHECKPOINTS).start()
    one.until(lambda: one.outputs().count("ready") == 2)
    end_from_outside(one, number, 0, 1, agents_first=agents_first)
    assert one.wait() == [75, 75]
    assert one.status(0)["failure"] is None
    assert "stopping: rank" in one.outputs()
    assert one.verdict().returncode == 75


ENDS = """
import os, signal, sys, threading, time
asked = threading.Event()
signal.signal(signal.SIGTERM, lambda number, frame: asked.set())
print("ready", flush=True)
while not asked.is_set():
    time.sleep(0.01)
time.sleep(float(os.environ["PAUSE"]))
sys.exit(0)
"""


@pytest.mark.parametrize("pause", ["0", "1"])
@pytest.mark.parametrize("agents_first", [True, False])
def test_a_rank_that_ends_with_0_for_it_is_interrupted(
    job: Any, agents_first: bool, pause: str
) -> None:
    """As Lightning does, and Transformers, which save a checkpoint only where they are told to."""
    one = job(ENDS, checkpoints=CHECKPOINTS, rank_environment={"PAUSE": pause}).start()
    one.until(lambda: one.outputs().count("ready") == 2)
    end_from_outside(one, signal.SIGTERM, 0, 1, agents_first=agents_first)
    assert one.wait() == [75, 75], one.outputs()
    assert one.verdict().returncode == 75


def test_one_node_that_got_it_is_enough(job: Any) -> None:
    """The other's rank fails for it, seconds later."""
    one = job(LOADS.replace("worker = ", "time.sleep(0.1); worker = "), checkpoints=CHECKPOINTS)
    one.start()
    one.until(lambda: one.outputs().count("ready") == 2)
    end_from_outside(one, signal.SIGTERM, 1)
    assert one.wait() == [75, 75]


def test_without_checkpoints_it_is_cancelled(job: Any) -> None:
    one = job(LOADS).start()
    one.until(lambda: one.outputs().count("ready") == 2)
    end_from_outside(one, signal.SIGTERM, 0, 1)
    assert one.wait() == [130, 130]


def test_a_failure_without_a_signal_is_one(job: Any) -> None:
    """The warning that comes before a time limit ends nobody."""
    one = job(LOSES, checkpoints=CHECKPOINTS).start()
    one.until(lambda: one.outputs().count("ready") == 2)
    (one.attempt_dir / "warning").touch()
    assert one.wait() == [1, 1]
    assert one.failures() == ["exit code 3"] * 2


@pytest.mark.parametrize(
    ("seen", "signalled", "kind", "state"),
    [
        (5.0, 4.0, EXIT, INTERRUPTED),
        (5.0, 4.0, LOST, INTERRUPTED),
        (5.0, 5.5, SIGNAL, INTERRUPTED),
        (5.0, 7.0, EXIT, FAILED),
        (5.0, None, EXIT, FAILED),
        (5.0, 4.0, OTHER, FAILED),
        (5.0, 4.0, VANISHED, FAILED),
    ],
)
def test_what_follows_from_a_signal(
    seen: float, signalled: float | None, kind: str, state: str
) -> None:
    """A full disk does not, nor does what came long before."""
    sightings = [Sighting(Failure(0, 0, "cause", 0.0, kind), seen)]
    assert judge(sightings, None, signalled).state == state
