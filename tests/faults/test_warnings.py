"""The warning before the time limit, through whatever stands between a rank and its program."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agent_job import PYTHON, Job

CHECKPOINTS = {"warning_s": 60, "requeues": 3}
LISTENS = """
import os, signal, sys, time
def leave(number, frame):
    print("heard", flush=True)
    sys.exit(75)
signal.signal(signal.SIGUSR1, leave)
print("ready", flush=True)
for _ in range(300):
    time.sleep(0.1)
"""
FORKS = """
import multiprocessing, os, signal, sys, time
def leave(number, frame):
    print("heard", os.getpid() == own, flush=True)
    sys.exit(75)
own = os.getpid()
signal.signal(signal.SIGUSR1, leave)
workers = [multiprocessing.Process(target=time.sleep, args=(30,), daemon=True) for _ in range(2)]
for worker in workers:
    worker.start()
print("ready", flush=True)
time.sleep(30)
"""
LATE = "import time; print('ready', flush=True); time.sleep(3)\n" + LISTENS.replace("ready", "late")
SPAWNS = """
import subprocess, sys
sys.exit(max(p.wait() for p in [subprocess.Popen([sys.executable, sys.argv[1]]) for _ in range(2)]))
"""


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], str]:
    def write(text: str) -> str:
        path = tmp_path / f"{len([*tmp_path.glob('*.py')])}.py"
        path.write_text(text)
        return str(path)

    return write


def warned(one: Job, ready: int = 1, within: float = 25.0) -> str:
    """Start the job, warn it when `ready` programs are, and return what its nodes said."""
    one.start()
    one.until(lambda: one.outputs().count("ready") == ready)
    (one.attempt_dir / "warning").touch()
    one.wait(within)
    return one.outputs()


@pytest.mark.parametrize(
    "wrapper",
    [
        ["bash", "-c", "cd /tmp; {program}; exit $?"],
        ["bash", "-c", "trap 'echo gone' EXIT; {program}; exit $?"],
        ["bash", "-c", "{program} & wait $!; exit $?"],
        ["sh", "-c", "timeout 60 {program}; exit $?"],
        ["timeout", "60", "nohup", PYTHON, "{path}"],
        ["bash", "-c", "(setsid {program} >&1 & wait $!)"],
        ["bash", "-c", "bash -c '{program}; exit $?'; exit $?"],
    ],
)
def test_a_warning_reaches_the_program_behind_a_wrapper(
    job: Any, program: Any, wrapper: list[str]
) -> None:
    path = program(LISTENS)
    words = [word.format(program=f"{PYTHON} {path}", path=path) for word in wrapper]
    said = warned(job(words, nodes=1, checkpoints=CHECKPOINTS))
    assert "heard" in said
    assert "argosy: node 0: interrupted" in said


def test_it_reaches_each_program_that_a_rank_starts(job: Any, program: Any) -> None:
    """Such as the workers of torchrun."""
    words = [PYTHON, program(SPAWNS), program(LISTENS)]
    said = warned(job(words, nodes=1, checkpoints=CHECKPOINTS), ready=2)
    assert said.count("heard") == 2


def test_forked_workers_do_not_do_what_their_program_does(job: Any) -> None:
    said = warned(job(FORKS, nodes=1, checkpoints=CHECKPOINTS))
    assert re.findall(r"heard \w+", said) == ["heard True"]


def test_a_shell_s_own_trap_hears_it(job: Any) -> None:
    script = "trap 'echo heard; exit 75' USR1; echo ready; sleep 30 & wait"
    assert "heard" in warned(job(["bash", "-c", script], nodes=1, checkpoints=CHECKPOINTS))


def test_a_program_that_listens_late_hears_it_then(job: Any) -> None:
    assert "heard" in warned(job(LATE, nodes=1, checkpoints=CHECKPOINTS))


def test_that_nobody_heard_it_is_said_and_is_the_cause_at_the_time_limit(job: Any) -> None:
    script = "echo ready; sleep 8; exit 3"
    one = job(["bash", "-c", script], nodes=1, checkpoints=CHECKPOINTS)
    said = warned(one)
    assert "argosy: no process of rank 0 handles the warning" in said
    assert one.status(0)["ranks"][0]["heard"] is False
    (one.records / "node-0.json").write_text(
        json.dumps({**one.status(0), "state": "cancelled", "failure": None})
    )
    (one.attempt_dir / "time-limit").touch()
    assert "no process of rank 0 handles the warning" in one.verdict().stdout


SAVES = LISTENS.replace("sys.exit(75)", "{save}; sys.exit(0)")
SAVED = """(
    os.makedirs(folder := os.environ["ARGOSY_CHECKPOINTS"] + "/step-000000007"),
    open(folder + "/checkpoint.json", "w").write("{}"),
)"""


def test_a_program_that_ends_with_0_for_the_warning_is_not_complete(job: Any) -> None:
    one = job(SAVES.replace("{save}", "None"), checkpoints=CHECKPOINTS)
    said = warned(one, ready=2)
    assert "rank 0 (node 0): it is unknown whether the program was done" in said
    assert re.search(
        r"ended with 0 \d s after it; with argosy_steps.Recorder\(\) 0 means done", said
    )
    assert one.verdict().returncode == 1


@pytest.mark.parametrize("status", [0, 1])
def test_one_that_saved_a_checkpoint_goes_on(job: Any, status: int) -> None:
    """With 1 ends torchrun, whatever its workers end with."""
    text = SAVES.replace("{save}", SAVED).replace("sys.exit(0)", f"sys.exit({status})")
    one = job(text, nodes=1, checkpoints=CHECKPOINTS)
    (one.folder / "checkpoints" / one.attempt).mkdir(parents=True)
    warned(one)
    assert one.verdict().returncode == 75


FINDS = """
import argosy_steps, os, sys, time
steps = argosy_steps.Recorder()
print("ready", flush=True)
while not os.path.exists(f"{os.environ['ARGOSY_RUN_DIR']}/attempts/{os.environ['ARGOSY_ATTEMPT']}/warning"):
    time.sleep(0.005)
with steps.checkpoint():
    pass
sys.exit(75)
"""


def test_one_that_finds_the_warning_before_its_agent_does_goes_on(job: Any, program: Any) -> None:
    """Its recorder looks for a file, and what started it turns 75 into 1 at once, as accelerate does."""
    words = ["bash", "-c", f"{PYTHON} {program(FINDS)}; exit 1"]
    one = job(words, nodes=1, checkpoints=CHECKPOINTS)
    warned(one)
    assert one.verdict().returncode == 75, one.outputs()


LATER = SAVES.replace("sys.exit(0)", "threading.Timer(31, os._exit, [0]).start()")
LATER = LATER.replace("import os", "import threading, os").replace("range(300)", "range(400)")


@pytest.mark.slow
@pytest.mark.parametrize("saves", [False, True])
def test_one_that_ends_with_0_a_while_after_the_warning(job: Any, saves: bool) -> None:
    """At the end of its epoch, or of all: with a checkpoint it goes on, else that is said."""
    text = "print('5 samples/s')\n" + LATER.replace("{save}", SAVED if saves else "None")
    one = job(text, nodes=1, checkpoints=CHECKPOINTS, throughput="(.*) samples/s")
    (one.folder / "checkpoints" / one.attempt).mkdir(parents=True)
    warned(one, within=60)
    verdict = one.verdict()
    assert verdict.returncode == (75 if saves else 0), one.outputs()
    assert ("it is unknown whether it was done or stopped early" in verdict.stdout) == (not saves)


RECORDS = """
import argosy_steps, time
with argosy_steps.Recorder().step(samples=1):
    print("ready", flush=True)
    time.sleep(1.5)
"""
PRINTS = "import time; print('ready', flush=True); time.sleep(1.5); print('5 samples/s')"


@pytest.mark.parametrize("text", [RECORDS, PRINTS])
def test_one_that_comes_to_its_end_is_complete(job: Any, text: str) -> None:
    """It has a recorder and would say otherwise, or it does not listen."""
    run = {} if text == RECORDS else {"throughput": "(.*) samples/s"}
    one = job(text, nodes=1, checkpoints=CHECKPOINTS, **run)
    warned(one)
    assert one.verdict().returncode == 0, one.outputs()
