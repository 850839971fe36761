"""How a job ended, in one line."""

import json
from pathlib import Path
from typing import Any

import pytest
import run_files
from run_files import run_content

from argosy.jobs.outdated import Programs
from argosy.jobs.verdicts import read_ending, settle, uncollected
from argosy.run_folder.job_file import add_job, change_job, script_digest
from argosy.run_folder.models import Job
from argosy.schedulers import slurm
from argosy.schedulers.base import State, Status

COMPLETED = Status(State.COMPLETED, "7")
NEVER_MET = (
    "its ranks never met: they are 2 groups, and it has no throughput (if they need not meet, "
    "set independent: true)"
)


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "results/local/digits/nodes2-ranks1-repeat1"
    (folder / "logs/7.0/ranks").mkdir(parents=True)
    (folder / "logs/7.0/ranks/rank-1.log").write_text("Traceback\nValueError: no such file: data\n")
    (folder / "job.sbatch").write_text("#!/bin/bash\n")
    return folder


def verdict(
    run_dir: Path,
    attempt: str,
    state: str,
    failure: dict[str, Any] | None = None,
    **more: Any,
) -> None:
    folder = run_dir / "attempts" / attempt
    folder.mkdir(parents=True)
    said = run_files.verdict(
        attempt=attempt, state=state, failure=failure, hosts=["n1", "n2"], **more
    )
    (folder / "verdict.json").write_text(json.dumps(said.content()))


def submitted(run_dir: Path, **more: Any) -> None:
    digest = script_digest(run_dir / "job.sbatch")
    add_job(run_dir, Job(scheduler="slurm", job_id="7", script_sha256=digest, **more))


def test_completed(run_dir: Path) -> None:
    verdict(run_dir, "7.0", "completed")
    assert read_ending(run_dir, COMPLETED).completed


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, ""),
        ({"groups": 1}, ""),
        ({"groups": 2}, f"; {NEVER_MET}"),
        (
            {"groups": 2, "remarks": ["a", "b\x1b[31m"]},
            f"; {NEVER_MET}; a; b",
        ),
    ],
)
def test_what_is_doubtful_of_a_completed_run_is_said(
    run_dir: Path, more: dict[str, Any], said: str
) -> None:
    verdict(run_dir, "7.0", "completed", **more)
    ending = read_ending(run_dir, COMPLETED)
    assert ending.message == f"local/digits/nodes2-ranks1-repeat1: completed{said}"
    assert ending.is_doubtful == bool(said)


def test_a_program_that_failed_is_quoted_with_its_last_line(run_dir: Path) -> None:
    verdict(run_dir, "7.0", "failed", {"node": 1, "rank": 1, "cause": "exit code 1", "at": 0})
    ending = read_ending(run_dir, Status(State.FAILED, "7"))
    assert not ending.completed
    assert ending.message == (
        "local/digits/nodes2-ranks1-repeat1: failed: rank 1 (node 1, n2): exit code 1: "
        f"ValueError: no such file: data; see {run_dir}/logs/7.0"
    )


def test_a_cancelled_job_has_no_cause(run_dir: Path) -> None:
    verdict(run_dir, "7.0", "cancelled")
    assert "repeat1: cancelled; see" in read_ending(run_dir, COMPLETED).message


def test_the_newest_attempt_of_this_job_counts(run_dir: Path) -> None:
    verdict(run_dir, "6.0", "completed")
    verdict(run_dir, "7.2", "failed")
    verdict(run_dir, "7.10", "completed")
    assert read_ending(run_dir, COMPLETED).completed


def test_without_a_verdict_the_last_word_of_the_job_is_given(run_dir: Path) -> None:
    gone = Status(State.GONE, "7")
    assert (
        "without a verdict: it left no log; can the compute nodes write to"
        in read_ending(run_dir, gone).message
    )
    (run_dir / "logs/scheduler-7.log").write_text("slurmstepd: error: cannot chdir\n")
    assert "slurmstepd: error: cannot chdir; see" in read_ending(run_dir, gone).message
    (run_dir / "logs/7.0/job.log").write_text("\x1b[31mbash: no space left\x1b[0m\n")
    assert "without a verdict: bash: no space left; see" in read_ending(run_dir, gone).message


def test_only_a_folder_that_is_there_is_named(run_dir: Path) -> None:
    verdict(run_dir, "8.0", "failed", {"node": 0, "rank": None, "cause": "x", "at": 0})
    message = read_ending(run_dir, Status(State.FAILED, "8")).message
    assert message == "local/digits/nodes2-ranks1-repeat1: failed: node 0 (n1): x"


def test_the_driver_knows_its_scheduler_s_words_of_a_job_that_nobody_noted(run_dir: Path) -> None:
    """Its submission was answered to nobody, so job.json does not name it."""
    run = run_content(run_id="nodes2-ranks1-repeat1", nodes=2)
    (run_dir / "run.json").write_text(json.dumps(run))
    (run_dir / "records/7.0").mkdir(parents=True)
    said = "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2030-01-01T00:00:00 DUE TO TIME LIMIT ***\n"
    (run_dir / "logs/scheduler-7.log").write_text(said)
    settle(run_dir, Status(State.GONE, "7"), slurm.LOG_WORDS)
    message = read_ending(run_dir, Status(State.GONE, "7")).message
    assert "failed: ended by Slurm: time limit" in message


def test_a_script_that_started_no_node_is_settled_with_its_own_word(run_dir: Path) -> None:
    run = run_content(run_id="nodes2-ranks1-repeat1", nodes=2)
    (run_dir / "run.json").write_text(json.dumps(run))
    (run_dir / "records/7.0").mkdir(parents=True)
    text = "argosy: slurm/x/site.yaml: tmpdir is $T, but T is not set in this batch job\n"
    (run_dir / "logs/7.0/job.log").write_text(text)
    settle(run_dir, Status(State.FAILED, "7"), None)
    message = read_ending(run_dir, Status(State.FAILED, "7")).message
    assert ": failed: node 0: it did not start: slurm/x/site.yaml: tmpdir is $T, but T" in message


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (State.TIMEOUT, "the time limit was reached; raise resources.time"),
        (State.OUT_OF_MEMORY, "raise resources.memory_per_rank"),
        (State.NODE_FAIL, "a node failed"),
        (State.PREEMPTED, "another job preempted it"),
        (State.CANCELLED, "it was cancelled"),
    ],
)
def test_without_a_verdict_the_queue_is_quoted(run_dir: Path, state: State, words: str) -> None:
    assert words in read_ending(run_dir, Status(state, "7")).message


def test_what_was_completed_while_no_driver_looked_is_collected_once(run_dir: Path) -> None:
    assert uncollected(run_dir) is None
    submitted(run_dir)
    assert uncollected(run_dir) is None
    verdict(run_dir, "7.0", "completed")
    assert uncollected(run_dir) == COMPLETED
    assert json.loads((run_dir / "result.json").read_text())["state"] == "completed"
    change_job(run_dir, "7", collected=True)
    assert uncollected(run_dir) is None


def test_a_result_of_another_script_is_not_this_run_s(run_dir: Path) -> None:
    submitted(run_dir)
    verdict(run_dir, "7.0", "completed")
    (run_dir / "job.sbatch").write_text("#!/bin/bash\n# planned anew\n")
    assert uncollected(run_dir) is None
    assert not (run_dir / "result.json").exists()


def test_a_result_of_another_program_is_not_this_run_s(tmp_path: Path) -> None:
    program = tmp_path / "containers/workloads/train.py"
    program.parent.mkdir(parents=True)
    program.write_text("1")
    run_dir = tmp_path / "results/site/study/run"
    run_dir.mkdir(parents=True)
    asked = run_files.run_spec(command=["python3", "/workloads/train.py"])
    (run_dir / "run.json").write_text(json.dumps(asked.content()))
    (run_dir / "job.sbatch").write_text("#!/bin/bash\n")
    programs = Programs(program.parent).of(asked)
    submitted(run_dir)
    verdict(run_dir, "7.0", "completed", programs=programs)
    program.write_text("2")
    assert uncollected(run_dir) is None
    assert not (run_dir / "result.json").exists()
    program.write_text("1")
    assert uncollected(run_dir) == COMPLETED
