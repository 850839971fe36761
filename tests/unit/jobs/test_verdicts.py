"""How a job ended, in one line."""

import json
from pathlib import Path
from typing import Any

import pytest

from argosy.jobs.schedulers.base import Job
from argosy.jobs.verdicts import read_ending


@pytest.fixture
def job(tmp_path: Path) -> Job:
    folder = tmp_path / "results/local/digits/nodes2-ranks1-repeat1"
    (folder / "logs/local-1.0").mkdir(parents=True)
    (folder / "logs/local-1.0/rank-1.log").write_text("Traceback\nValueError: no such file: data\n")
    return Job(folder, "local-1")


def verdict(job: Job, incarnation: str, state: str, failure: dict[str, Any] | None = None) -> None:
    folder = job.run_dir / "records" / incarnation
    folder.mkdir(parents=True)
    content = {"schema_version": 1, "state": state, "failure": failure}
    (folder / "verdict.json").write_text(json.dumps(content))


def test_completed(job: Job) -> None:
    verdict(job, "local-1.0", "completed")
    assert read_ending(job).completed


def test_a_program_that_failed_is_quoted_with_its_last_line(job: Job) -> None:
    verdict(job, "local-1.0", "failed", {"node": 1, "rank": 1, "cause": "exit code 1", "at": 0})
    ending = read_ending(job)
    assert not ending.completed
    assert ending.message == (
        "local/digits/nodes2-ranks1-repeat1: failed: rank 1 (node 1): exit code 1: "
        f"ValueError: no such file: data; see {job.run_dir}/logs/local-1.0"
    )


def test_a_cancelled_job_has_no_cause(job: Job) -> None:
    verdict(job, "local-1.0", "cancelled")
    assert "repeat1: cancelled; see" in read_ending(job).message


def test_the_newest_incarnation_of_this_job_counts(job: Job) -> None:
    verdict(job, "local-0.0", "completed")
    verdict(job, "local-1.0", "failed")
    verdict(job, "local-1.1", "completed")
    assert read_ending(job).completed


def test_without_a_verdict_the_last_word_of_the_job_is_given(job: Job) -> None:
    assert "ended without a verdict: it left no log" in read_ending(job).message
    (job.run_dir / "logs/local-1.0/job.log").write_text("bash: no space left\n")
    assert "ended without a verdict: bash: no space left; see" in read_ending(job).message
