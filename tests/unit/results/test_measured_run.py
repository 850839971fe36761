"""The state of a run, from its files."""

from pathlib import Path

import pytest
from study_files import STARTED, RunFiles, plan, write_json

from argosy.results.fingerprint import list_run
from argosy.results.measured_run import NO_VERDICT, read_run
from argosy.run_folder.models import RunFolderError

FAILURE = {"node": 0, "rank": None, "cause": "the container did not start", "at": STARTED}


@pytest.fixture
def run(tmp_path: Path) -> RunFiles:
    return plan(tmp_path / "site", nodes=2)


def state_and_causes(run: RunFiles) -> tuple[str, list[tuple[str, str]]]:
    read = read_run(list_run(run.path))
    return read.state, [(one.name, failure.cause) for one, failure in read.failures()]


def test_pending(run: RunFiles) -> None:
    assert state_and_causes(run) == ("pending", [])


@pytest.mark.parametrize("state", ["failed", "cancelled"])
def test_by_the_verdict(run: RunFiles, state: str) -> None:
    run.execute("7.0", state=state, failure=FAILURE)
    assert state_and_causes(run) == (state, [("7.0", "the container did not start")])


def test_a_node_that_gave_up_speaks_for_a_job_without_verdict(run: RunFiles) -> None:
    run.node_status("7.0", 0, "host0", "running", ended=None)
    run.node_status("7.0", 1, "host1", "failed", ended=STARTED + 5, failure=FAILURE)
    assert state_and_causes(run) == ("failed", [("7.0", "the container did not start")])


def test_running_or_killed_without_a_word_is_unfinished(run: RunFiles) -> None:
    run.node_status("7.0", 0, "host0", "running", ended=None)
    assert state_and_causes(run) == ("unfinished", [])


def test_a_job_of_which_only_logs_are_left_is_unfinished(run: RunFiles) -> None:
    run.logs("7.0")
    assert state_and_causes(run) == ("unfinished", [])


def test_a_verdict_without_its_copy_is_no_result(run: RunFiles) -> None:
    run.execute("7.0")
    (run.path / "result.json").unlink()
    assert state_and_causes(run) == ("unfinished", [])


def test_an_older_attempt_without_verdict_is_a_failure(run: RunFiles) -> None:
    run.node_status("9.0", 0, "host0", "running", ended=None)
    run.execute("10.0")
    assert state_and_causes(run) == ("completed", [("9.0", NO_VERDICT)])
    read = read_run(list_run(run.path))
    assert [one.seconds for one in read.attempts] == [None, 60.0]


def test_restarts_of_a_job_are_in_order(run: RunFiles) -> None:
    for restart in (10, 9):
        run.execute(f"7.{restart}", state="failed", failure=FAILURE)
    assert [one.name for one in read_run(list_run(run.path)).attempts] == ["7.9", "7.10"]


def test_jobs_are_in_the_order_of_job_json(run: RunFiles) -> None:
    run.execute("2.0", state="failed", failure=FAILURE)
    run.execute("1.0", state="cancelled")
    jobs = [{"scheduler": "slurm", "job_id": job, "submitted": 0} for job in ("2", "1")]
    write_json(run.path / "job.json", {"schema_version": 2, "jobs": jobs})
    assert read_run(list_run(run.path)).state == "cancelled"


def test_a_result_counts_even_where_its_verdict_is_lost(run: RunFiles) -> None:
    run.execute("7.0", seconds=12.0)
    (run.attempt("7.0") / "verdict.json").unlink()
    read = read_run(list_run(run.path))
    assert read.current is not None
    assert (read.state, read.current.seconds) == ("completed", 12.0)


def test_a_result_without_its_records_is_refused(run: RunFiles) -> None:
    run.execute("7.0")
    content = (run.path / "result.json").read_text().replace("7.0", "8.0")
    (run.path / "result.json").write_text(content)
    with pytest.raises(RunFolderError, match=r"names attempt 8\.0"):
        read_run(list_run(run.path))
