"""What programs and the commands beside them leave behind, and how soon they may end."""

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from agent_job import PYTHON, Job

from argosy.runtime.agent.coordination.failure import raised_at_last

MEMORY = """
import os, signal, sys, time
from multiprocessing import shared_memory
memory = shared_memory.SharedMemory(create=True, size=4096)
print(f"name <{memory.name}>")
open(os.path.join(FOLDER, os.environ["ARGOSY_RANK"]), "w").close()
while len(os.listdir(FOLDER)) < 2:
    time.sleep(0.02)
"""
PEER = "sys.exit(3) if os.environ['ARGOSY_RANK'] == '1' else time.sleep(60)"
DEAF = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"


@pytest.mark.parametrize(
    "end",
    ["pass", "os._exit(3)", "os.kill(os.getpid(), signal.SIGSEGV)", PEER, DEAF + PEER],
    ids=["end", "exit", "crash", "peer", "deaf-peer"],
)
def test_shared_memory_is_removed_as_after_a_start_by_hand(
    job: Any, tmp_path: Path, end: str
) -> None:
    created = tmp_path / "created"
    created.mkdir()
    job = job(f"FOLDER = {str(created)!r}\n{MEMORY}{end}", independent=True).start()
    job.wait()
    assert job.left_nothing()
    names = re.findall("name <(.+)>", job.outputs())
    assert len(names) == 2, job.outputs()
    assert not [name for name in names if Path("/dev/shm", name).exists()]


SERVER = """
import os, time
while not os.path.exists("{0}/told"):
    time.sleep(0.05)
raise SystemExit({1})
"""
TELLS = """
import os, sys, time
open("{0}/told", "w").close()
import argosy_steps
with argosy_steps.Recorder().step(samples=1):
    pass
time.sleep({1})
"""


@pytest.mark.parametrize(
    ("code", "goes_on_s", "cause"),
    [
        (0, 1.5, ""),
        (0, 30, "exit code 0; it has to run, in the foreground, until the program ends; see "),
        (4, 30, "exit code 4; see beside-0-0.log"),
    ],
)
def test_a_command_beside_the_program_may_end_when_it_is_told_to(
    job: Any, tmp_path: Path, code: int, goes_on_s: float, cause: str
) -> None:
    beside = {"head": [["python3", "-c", SERVER.format(tmp_path, code)]]}
    job = job(TELLS.format(tmp_path, goes_on_s), beside=beside, independent=True)
    began = time.monotonic()
    job.start()
    ended = job.wait()
    assert time.monotonic() < began + 15
    assert all((found == 0) is (not cause) for found in ended), job.outputs()
    assert not cause or cause in job.failures()[0]


def test_separate_programs_lose_connections_of_others(job: Any) -> None:
    program = """
    import os, sys, time
    if os.environ["ARGOSY_RANK"] == "1":
        sys.exit(0)
    time.sleep(1)
    raise ConnectionResetError(104, "Connection reset by peer")
    """
    job: Job = job(program, independent=True).start()
    job.wait()
    failure = job.status(0)["failure"]
    assert (failure["rank"], failure["cause"], failure["kind"]) == (0, "exit code 1", "exit")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (
            "{0} -c 'raise ValueError(7)' 2>&1 | cat",
            "ended with 0 right after an exception: ValueError: 7",
        ),
        (
            "{0} -c 'raise ValueError(7)'; true",
            "ended with 0 right after an exception: ValueError: 7",
        ),
        ("{0} -c 'raise ValueError(7)'; for i in 1 2 3 4; do echo $i; done", None),
        ("sleep 30 &", "processes still ran when their ranks had ended, and were ended: sleep 30"),
        (
            "setsid sleep 30 &",
            "processes still ran when their ranks had ended, and were ended: sleep 30",
        ),
        ("true", None),
    ],
)
def test_a_run_that_ends_well_in_spite_of_its_program_is_doubtful(
    job: Any, command: str, said: str | None
) -> None:
    shell = f"echo 5 samples/s; echo 5 samples/s; {command.format(PYTHON)}"
    job = job(["bash", "-c", shell], nodes=1, throughput="([0-9]+) samples/s").start()
    assert job.wait() == [0], job.outputs()
    assert job.verdict().returncode == 0
    remarks = json.loads((job.attempt_dir / "verdict.json").read_text()).get("remarks", [])
    assert said in remarks[0] if said else not remarks


@pytest.mark.parametrize(
    ("text", "raised"),
    [
        (
            'Traceback (most recent call last):\n  File "x", line 1\nRuntimeError: no\n',
            "RuntimeError: no",
        ),
        (
            '[rank0]: Traceback (most recent call last):\n[rank0]:   File "x"\n[rank0]: KeyError: 1\n',
            "KeyError: 1",
        ),
        (
            'Exception ignored in: <f>\nTraceback (most recent call last):\n  File "x"\nKeyError: 1\n',
            "",
        ),
        (
            'Traceback (most recent call last):\n  File "x"\nKeyError: 1\nepoch 2\nepoch 3\nepoch 4\n',
            "",
        ),
        ("100 samples/s\n", ""),
    ],
)
def test_an_exception_at_the_end_of_the_output(text: str, raised: str) -> None:
    assert raised_at_last(text) == raised
