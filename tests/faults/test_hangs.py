"""What the agents make of ranks that do nothing any more, and of those that only seem so."""

import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import step_files
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
    sys.exit()
"""
# The tests beside it go first. A rank is a session, and Linux gives each session a niceness of its own.
GENTLE = """
os.nice(19)
try: open("/proc/self/autogroup", "w").write("19")
except OSError: pass
"""
LOOP = GENTLE + "while True:\n    pass\n"
STOP = "os.kill(os.getpid(), signal.SIGSTOP)\n"
LOADER = """
import multiprocessing
queue = multiprocessing.Queue()
multiprocessing.Process(target=time.sleep, args=(600,), daemon=True).start()
queue.get()
"""
# As JAX does: the program has failed, and waits for others at its end.
RAISED = """
import atexit
@atexit.register
def leave():
    time.sleep(600)
raise ValueError("no data")
"""
NO_PYTHON = "os.execvp('sleep', ['sleep', '600'])\n"
HANG = r"hang: no step, collective or output for \d+ s: rank 0 is at program.py:9; rank 1 "


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Callable[..., Job]]:
    """Makes jobs with a folder each, so that they can run at the same time."""
    with ExitStack() as made:

        def make(program: str, **run: Any) -> Job:
            folder = Path(tempfile.mkdtemp(dir=tmp_path))
            return made.enter_context(jobs(folder))(program, **run)

        yield make


PLACES = {
    LOOP: r"is at program.py:\d\d",
    STOP: r"is stopped \(by a signal or a debugger\)",
    LOADER: r"is at program.py:17 \(get of queues.py\)",
    RAISED: r"is at program.py:\d\d, after ValueError: no data",
    NO_PYTHON: "gave no Python stack",
    "pass\n": "has ended",
}


def test_ranks_that_do_nothing_are_named_with_their_places_and_ended(job: Any) -> None:
    started = []
    for program, place in PLACES.items():
        # With checkpoints, too, a hang is a failure, and no interruption that is continued.
        checkpoints = {"warning_s": 60, "requeues": 3}
        one = job(STEPS + program, hang_timeout_s=6, checkpoints=checkpoints)
        (one.folder / "tmp").mkdir()
        started.append((one.start(TMPDIR=str(one.folder / "tmp")), place))
    for one, place in started:
        assert one.wait(60) == [1, 1]
        said = one.verdict()
        assert said.returncode == 1
        (line,) = said.stdout.splitlines()
        assert re.fullmatch(f"argosy: run run failed: {HANG}{place}", line), place
        assert one.failures() == [line.partition("failed: ")[2]] * 2
        assert step_files.count(one.records / "rank-0.steps") > 10
        assert "Python stacks of rank 0, pid" in (one.logs / "ranks/rank-0.log").read_text()
        assert list((one.folder / "tmp").iterdir()) == []
        assert one.left_nothing()


SIGNS = (
    "print('.', end='', flush=True)",
    "steps.metric('loss', 1)",
    "print('a', file=sys.stderr)",
)


def test_no_silence_or_a_short_one_or_one_that_is_allowed_ends_a_run(job: Any) -> None:
    waiting = STEPS.replace("time.sleep(600)", "time.sleep(10)")
    silent = waiting + "time.sleep(10)\n"
    started = [job(silent).start(), job(silent, hang_timeout_s=0).start()]
    for sign in SIGNS:
        program = f"{waiting}for _ in range(10):\n    {sign}\n    time.sleep(1)\n"
        started.append(job(program, hang_timeout_s=6).start())
    for one in started:
        assert one.wait(60) == [0, 0], one.outputs()


VALIDATE = f"""
import json
{GENTLE}
def double(values): return [value * 2 for value in values]
end = time.monotonic() + 72
while time.monotonic() < end:
    json.dumps(double(list(range(2000))))
"""


@pytest.mark.thorough
@pytest.mark.slow
def test_by_default_a_loop_is_ended_and_a_long_validation_goes_on(job: Any) -> None:
    loop = job(STEPS + LOOP).start()
    waiting = STEPS.replace("time.sleep(600)", "time.sleep(75)")
    validation = job(waiting + VALIDATE).start()
    loop.until(lambda: step_files.count(loop.records / "rank-1.steps") > 10)
    assert loop.wait(170) == [1, 1]
    told = re.match(r"hang: no step, collective or output for (\d+) s: ", loop.failures()[0])
    assert told and int(told[1]) >= 60
    assert "rank 1 is at program.py:" in loop.failures()[0]
    assert validation.wait(60) == [0, 0], validation.outputs()
