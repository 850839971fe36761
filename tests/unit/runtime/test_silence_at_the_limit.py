"""The report on a job that was silent at its time limit."""

import json
import signal
import time
from collections.abc import Callable

import pytest
from agent_job import Job

from argosy.runtime.agent.hangs import judge

STEP = """
import argosy_steps, os, time
with argosy_steps.Recorder().step(samples=1):
    pass
"""


@pytest.mark.slow
@pytest.mark.parametrize("silent", [True, False])
def test_a_silent_job_is_told_where_it_was(job: Callable[..., Job], silent: bool) -> None:
    # A finite loop makes progress; one long sleep does not.
    last = "time.sleep(1000)" if silent else "while time.time(): time.sleep(1)"
    limit = judge.BEFORE_THE_END + judge.CERTAIN + 2
    job = job(STEP + last, time_limit_s=limit)
    (job.attempt_dir / "claim.json").write_text(
        json.dumps({"schema_version": 2, "unix": time.time()})
    )
    job.start()
    time.sleep(limit + 3)
    # Like the site `local` at a job's time limit.
    (job.attempt_dir / "time-limit").touch()
    for agent in job.agents.values():
        agent.send_signal(signal.SIGTERM)
    job.wait()
    said = job.verdict().stdout
    assert "time limit; " in said
    assert ("; ranks 0-1 are at program.py:" in said) == silent, said
    assert ("raise resources.time" in said) != silent
