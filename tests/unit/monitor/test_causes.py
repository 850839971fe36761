"""Why a run came to nothing: its verdict, else the queue, else its log."""

import pytest
from live_study import FakeStudy, ended_in, starts

from argosy.monitor.run_state import RunState
from argosy.schedulers.base import State


def test_the_cause_names_rank_host_and_the_programs_last_line(fake: FakeStudy) -> None:
    run = fake.plan(nodes=2)
    failure = {"node": 1, "rank": 1, "cause": "exit code 1", "at": 0}
    ended_in(run, "7.0", "failed", failure)
    log = run.path / "logs/7.0/ranks/rank-1.log"
    log.write_text("10 %\r20 %\r30 %\nValueError: no data\n\n")
    assert fake.only().note == "rank 1 (node 1, host1): exit code 1: ValueError: no data"


def test_what_is_printed_after_the_exception_is_not_the_cause(fake: FakeStudy) -> None:
    run = fake.plan(nodes=1)
    ended_in(run, "7.0", "failed", {"node": 0, "rank": 0, "cause": "exit code 1", "at": 0})
    log = run.path / "logs/7.0/ranks/rank-0.log"
    raised = 'Traceback (most recent call last):\n  File "train.py", line 3\nValueError: no data\n'
    log.write_text(f"{raised}wandb: Find logs at: ./wandb/logs\n{'=' * 60}\n")
    assert fake.only().note == "rank 0 (node 0, host0): exit code 1: ValueError: no data"


@pytest.mark.parametrize(
    ("state", "expected", "note"),
    [
        (State.TIMEOUT, RunState.FAILED, "the time limit was reached"),
        (State.NODE_FAIL, RunState.FAILED, "a node failed"),
        (State.CANCELLED, RunState.CANCELLED, "it was cancelled"),
        (State.FAILED, RunState.FAILED, "ended without a verdict: no such file"),
    ],
)
def test_without_a_verdict_the_queue_or_the_log_knows(
    fake: FakeStudy, state: State, expected: RunState, note: str
) -> None:
    run = fake.plan()
    (run.path / "logs").mkdir()
    (run.path / "logs/scheduler-7.log").write_text("no such file\n")
    fake.queued(run, "7", state)
    view = fake.only()
    assert (view.state, view.ended) == (expected, True)
    assert view.note.startswith(note)


def test_what_slurm_forgot_and_left_no_verdict_is_gone(fake: FakeStudy) -> None:
    run = fake.plan()
    fake.submitted(run, "7")
    starts(run, "7.0")
    view = fake.only()
    assert (view.state, view.ended) == (RunState.GONE, True)
    assert view.note == "ended without a verdict: job of nodes1-ranks1-repeat1"
