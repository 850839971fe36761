"""What the agents make of ranks that do nothing any more, and of those that only seem so."""

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from agent_job import Job, jobs

STEPS = """
import argosy_steps, os, signal, subprocess, sys, time
rank = int(os.environ["ARGOSY_RANK"])
steps = argosy_steps.Recorder()
for number in range(25):
    with steps.step(samples=1):
        time.sleep(0.1)
def wait_for_others():
    time.sleep(600)
if rank == 0:
    wait_for_others()
"""
LOOP = "while True:\n    pass\n"
STOP = "os.kill(os.getpid(), signal.SIGSTOP)\n"
LOADER = """
import multiprocessing
queue = multiprocessing.Queue()
multiprocessing.Process(target=time.sleep, args=(600,), daemon=True).start()
queue.get()
"""
NO_PYTHON = "os.execvp('sleep', ['sleep', '600'])\n"
HANG = r"hang: no step, collective or output for \d+ s: rank 0 is at program.py:9; rank 1 "


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Callable[..., Job]]:
    with jobs(tmp_path) as make:
        yield make


@pytest.mark.parametrize(
    ("program", "place"),
    [
        (LOOP, "is at program.py:1[23]"),
        (STOP, r"is stopped \(by a signal or a debugger\)"),
        (LOADER, r"is at program.py:16 \(get of queues.py\)"),
        (NO_PYTHON, "gave no Python stack"),
        ("sys.exit()\n", "has ended"),
    ],
    ids=["loop", "stopped", "loader", "no Python", "ended"],
)
def test_ranks_that_do_nothing_are_named_with_their_places_and_ended(
    job: Any, program: str, place: str
) -> None:
    job = job(STEPS + program, hang_timeout_s=4)
    temporary = job.folder / "tmp"
    temporary.mkdir()
    job.start(TMPDIR=str(temporary))
    assert job.wait(40) == [1, 1]
    said = job.verdict()
    assert said.returncode == 1
    (line,) = said.stdout.splitlines()
    assert re.fullmatch(f"argosy: run run failed: {HANG}{place}", line)
    assert job.failures() == [line.partition("failed: ")[2]] * 2
    assert (job.records / "rank-0.jsonl").read_text().count('"kind": "step"') > 10
    assert "Python stacks of rank 0, pid" in (job.logs / "rank-0.log").read_text()
    assert list(temporary.iterdir()) == []
    assert job.left_nothing()


def test_a_hang_is_no_interruption_that_is_continued(job: Any) -> None:
    checkpoints = {"warning_s": 60, "requeues": 3}
    job = job(STEPS + LOOP, hang_timeout_s=4, checkpoints=checkpoints).start()
    assert job.wait(40) == [1, 1]
    assert job.status(0)["state"] == "failed"
    assert job.verdict().returncode == 1


@pytest.mark.parametrize("timeout", [{}, {"hang_timeout_s": 0}], ids=["by default", "off"])
def test_a_short_silence_is_none(job: Any, timeout: dict[str, int]) -> None:
    quiet = "if rank == 1: time.sleep(8)\n"
    program = STEPS.replace("time.sleep(600)", "time.sleep(8)") + quiet
    assert job(program, **timeout).start().wait(40) == [0, 0]


@pytest.mark.parametrize(
    "sign",
    ["print('.', end='', flush=True)", "steps.metric('loss', 1)", "print('a', file=sys.stderr)"],
)
def test_a_sign_of_one_rank_is_one_of_all(job: Any, sign: str) -> None:
    signs = f"for _ in range(10):\n    {sign}\n    time.sleep(1)\n"
    program = STEPS.replace("time.sleep(600)", "time.sleep(10)") + signs
    assert job(program, hang_timeout_s=5).start().wait(40) == [0, 0]


VALIDATE = """
import json
def double(values): return [value * 2 for value in values]
end = time.monotonic() + 72
while time.monotonic() < end:
    json.dumps(double(list(range(2000))))
"""


@pytest.mark.slow
def test_by_default_a_loop_ends_within_75_seconds_and_a_long_validation_goes_on(
    tmp_path: Path,
) -> None:
    folders = [tmp_path / name for name in ("loop", "validation")]
    for folder in folders:
        folder.mkdir()
    with jobs(folders[0]) as make_loop, jobs(folders[1]) as make_validation:
        loop = make_loop(STEPS + LOOP).start()
        waits = STEPS.replace("time.sleep(600)", "time.sleep(75)")
        validation = make_validation(waits + VALIDATE).start()
        file = loop.records / "rank-1.jsonl"
        loop.until(lambda: file.exists() and file.read_text().count('"kind": "step"') > 10)
        assert loop.wait(90) == [1, 1]
        assert time.time() - file.stat().st_mtime < 75
        assert "rank 1 is at program.py:1" in loop.failures()[0]
        assert validation.wait(60) == [0, 0], validation.outputs()
