"""A run's state and its cause, from its files, the queue, or processes of this machine."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from live_study import FakeStudy, ended_in, starts
from study_files import RunFiles, write_json

from argosy.monitor.failures import failed_runs
from argosy.monitor.run_state import RunState, RunView
from argosy.monitor.study import Study
from argosy.schedulers.base import State
from argosy.schedulers.slurm.commands import NoAnswerError
from argosy_common.errors import ArgosyError


def test_nothing_was_submitted(fake: FakeStudy) -> None:
    fake.plan()
    view = fake.only()
    assert (view.state, view.ended) == (RunState.PLANNED, False)


def test_a_pending_job_tells_slurms_reason_and_when_it_is_expected(fake: FakeStudy) -> None:
    run = fake.plan()
    fake.queued(run, "7", State.PENDING, reason="Resources", start=time.time() + 600.5)
    view = fake.only()
    assert (view.state, view.job, view.reason) == (RunState.PENDING, "7", "Resources")
    assert view.note == "waits for nodes to come free; expected in 10m00s"
    assert not view.stuck


def test_a_held_job_is_stuck(fake: FakeStudy) -> None:
    fake.queued(fake.plan(), "7", State.PENDING, reason="JobHeldUser")
    view = fake.only()
    assert view.stuck
    assert "scontrol release" in view.note


def test_a_running_job_has_the_queues_times_and_nodes(fake: FakeStudy) -> None:
    run = fake.plan(nodes=2)
    starts(run, "7.0")
    fake.queued(run, "7", State.RUNNING, nodes="n[1-2]", used_s=60.0, left_s=540.0)
    view = fake.only()
    assert (view.state, view.nodes) == (RunState.RUNNING, "n[1-2]")
    assert view.used_s == pytest.approx(60, abs=2)
    assert view.left_s == pytest.approx(540, abs=2)


def test_a_requeued_job_waits_though_its_last_execution_left_a_verdict(fake: FakeStudy) -> None:
    run = fake.plan()
    ended_in(run, "7.0", "interrupted")
    fake.queued(run, "7", State.REQUEUED, reason="BeginTime", restarts=1)
    view = fake.only()
    assert (view.state, view.job, view.ended) == (RunState.REQUEUED, "7.1", False)


def test_a_restarted_job_is_seen_by_its_newest_execution(fake: FakeStudy) -> None:
    run = fake.plan()
    ended_in(run, "7.0", "interrupted")
    run.steps("7.0", steps=5)
    starts(run, "7.1")
    run.steps("7.1", steps=9, first_step=5)
    fake.queued(run, "7", State.RUNNING, restarts=1)
    view = fake.only()
    assert (view.state, view.progress.steps) == (RunState.RUNNING, 9)


def test_a_verdict_counts_before_slurm_has_cleaned_up(fake: FakeStudy) -> None:
    run = fake.plan()
    ended_in(run, "7.0", "completed")
    fake.queued(run, "7", State.RUNNING)
    view = fake.only()
    assert (view.state, view.ended) == (RunState.COMPLETED, False)


@pytest.mark.parametrize("state", ["completed", "failed", "cancelled", "interrupted"])
def test_the_verdict_says_how_it_ended(fake: FakeStudy, state: str) -> None:
    ended_in(fake.plan(), "7.0", state)
    view = fake.only()
    assert (view.state, view.job, view.ended) == (state, "7", True)
    assert view.used_s == 60.0


def test_of_two_jobs_the_one_that_is_queued_counts(fake: FakeStudy) -> None:
    run = fake.plan()
    ended_in(run, "7.0", "failed")
    fake.submitted(run, "7", "12")
    fake.queued(run, "7", State.FAILED)
    fake.queued(run, "12", State.PENDING, reason="Priority")
    assert fake.only().job == "12"


def test_of_two_jobs_that_the_queue_forgot_the_one_submitted_last_counts(fake: FakeStudy) -> None:
    run = fake.plan()
    starts(run, "7.0", time.time() - 1_600_000_000)
    run.execute("7.0", "failed")
    run.execute("12.0", "cancelled")
    fake.submitted(run, "7", "12")
    assert (fake.only().state, fake.only().job) == (RunState.CANCELLED, "12")


def test_a_job_submitted_by_hand_after_the_drivers_counts(fake: FakeStudy) -> None:
    run = fake.plan()
    fake.submitted(run, "12")
    run.execute("12.0", "failed")
    ended_in(run, "13.0", "cancelled")
    assert (fake.only().state, fake.only().job) == (RunState.CANCELLED, "13")


def test_a_job_submitted_since_the_queue_was_asked_is_not_gone(fake: FakeStudy) -> None:
    run = fake.plan()

    def ask() -> list[Any]:
        entry = {"scheduler": "slurm", "job_id": "7", "submitted": time.time() + 1}
        write_json(run.path / "job.json", {"schema_version": 2, "jobs": [entry]})
        return []

    fake.ask = ask
    assert fake.only().state is RunState.PENDING


def silence() -> list[Any]:
    raise NoAnswerError("socket timed out")


def test_while_slurm_is_silent_the_files_tell(fake: FakeStudy) -> None:
    fake.ask = silence
    fake.submitted(fake.plan(repeat=1), "7")
    starts(fake.plan(repeat=2), "8.0", seconds_ago=100)
    ended_in(fake.plan(repeat=3), "9.0", "failed")
    snapshot = fake.study().look(5)
    states = [view.state for view in snapshot.views]
    assert states == [RunState.PENDING, RunState.RUNNING, RunState.FAILED]
    running = snapshot.views[1]
    assert running.nodes == "host0"
    assert running.used_s == pytest.approx(100, abs=2)
    assert running.left_s == pytest.approx(500, abs=2)
    assert snapshot.answer and snapshot.answer.problem == "socket timed out"
    assert snapshot.answer.silent_since == pytest.approx(time.time(), abs=2)


@pytest.mark.parametrize(
    ("change", "note"),
    [
        ({"schema_version": 9}, "run.json: its schema_version is 9; this Argosy reads 2; it was "),
        ({"nodes": None}, "run.json: nodes: "),
    ],
)
def test_a_plan_of_another_kind_is_one_line_of_the_table(
    fake: FakeStudy, change: dict[str, Any], note: str
) -> None:
    run: RunFiles = fake.plan()
    asked = json.loads((run.path / "run.json").read_text()) | change
    write_json(run.path / "run.json", {k: v for k, v in asked.items() if v is not None})
    view = fake.only()
    assert view.state is RunState.UNREADABLE
    assert view.note.startswith(note)


@pytest.mark.parametrize("copy", ["digits/nodes1-ranks1-repeat9", "other/nodes1-ranks1-repeat1"])
def test_a_copied_folder_is_no_run(fake: FakeStudy, copy: str) -> None:
    shutil.copytree(fake.plan().path, fake.site / copy)
    views = fake.look()
    assert views[copy].state is RunState.UNREADABLE
    assert "belongs to run digits/nodes1-ranks1-repeat1, but its folder is" in views[copy].note
    assert views["digits/nodes1-ranks1-repeat1"].state is RunState.PLANNED


def test_a_plan_that_is_cut_off_is_one_line_of_the_table(fake: FakeStudy) -> None:
    run = fake.plan()
    (run.path / "run.json").write_text('{"schema')
    assert fake.only().note.startswith("run.json: cannot be read as JSON (")


def test_a_result_that_snakemake_took_away_is_still_completed(fake: FakeStudy) -> None:
    run = fake.plan()
    ended_in(run, "7.0", "completed")
    (run.path / "result.json").unlink()
    view = fake.only()
    assert (view.state, view.ended) == (RunState.COMPLETED, True)
    assert "result.json" in view.note


def test_the_doubts_of_a_completed_run_are_shown(fake: FakeStudy) -> None:
    run = fake.plan()
    ended_in(run, "7.0", "completed")
    for path in (run.path / "result.json", run.path / "attempts/7.0/verdict.json"):
        write_json(path, {**json.loads(path.read_text()), "groups": 2, "remarks": ["a", "b"]})
    view = fake.only()
    assert view.state is RunState.COMPLETED
    assert view.note.startswith("its ranks never met: they are 2 groups, and it has no throughput")
    assert view.note.endswith("; a; b")


def test_a_site_without_a_plan_is_a_mistake(fake: FakeStudy) -> None:
    (fake.site / "tables").mkdir(parents=True)
    with pytest.raises(ArgosyError, match="no run is planned here"):
        fake.study()


def test_what_has_ended_is_read_again_when_something_new_is_written(fake: FakeStudy) -> None:
    run = fake.plan()
    ended_in(run, "7.0", "failed")
    study = fake.study()
    assert study.look(5).views[0].state is RunState.FAILED
    starts(run, "8.0")
    run.execute("8.0", "completed")
    assert study.look(5).views[0].state is RunState.COMPLETED


def test_the_cause_names_rank_host_and_the_programs_last_line(fake: FakeStudy) -> None:
    run = fake.plan(nodes=2)
    failure = {"node": 1, "rank": 1, "cause": "exit code 1", "at": 0}
    ended_in(run, "7.0", "failed", failure)
    log = run.path / "logs/7.0/ranks/rank-1.log"
    log.write_text("10 %\r20 %\r30 %\nValueError: no data\n\n")
    assert fake.only().note == "rank 1 (node 1, host1): exit code 1: ValueError: no data"


@pytest.mark.parametrize(
    ("path", "remedy"),
    [
        ("/data/x/new", "add write: true to the experiment's data: /data/x"),
        ("/data/xy", "name that path in the experiment's outputs"),
    ],
)
def test_the_cause_names_the_key_that_lets_a_program_write(
    fake: FakeStudy, path: str, remedy: str
) -> None:
    run = fake.plan(nodes=1)
    asked = json.loads((run.path / "run.json").read_text())
    data = {"/data/x": {"path": "/x", "write": False, "digest": False}}
    (run.path / "run.json").write_text(json.dumps(asked | {"data": data}))
    ended_in(run, "7.0", "failed", {"node": 0, "rank": 0, "cause": "exit code 1", "at": 0})
    log = run.path / "logs/7.0/ranks/rank-0.log"
    log.write_text(f"OSError: [Errno 30] Read-only file system: '{path}'\n")
    assert fake.only().note.endswith(f"; if the program may write there, {remedy}")


def test_a_missing_module_is_a_missing_package(fake: FakeStudy) -> None:
    run = fake.plan(nodes=1)
    ended_in(run, "7.0", "failed", {"node": 0, "rank": 0, "cause": "exit code 1", "at": 0})
    log = run.path / "logs/7.0/ranks/rank-0.log"
    log.write_text("ModuleNotFoundError: No module named 'tqdm'\n")
    assert "list it in the file of image.python" in fake.only().note


@pytest.mark.parametrize(("launcher", "is_named"), [("torch", True), ("plain", False)])
def test_a_port_in_use_may_be_that_of_torchs_store(
    fake: FakeStudy, launcher: str, is_named: bool
) -> None:
    run = fake.plan(nodes=1)
    asked = json.loads((run.path / "run.json").read_text())
    (run.path / "run.json").write_text(json.dumps(asked | {"launcher": launcher}))
    ended_in(run, "7.0", "failed", {"node": 0, "rank": 0, "cause": "exit code 1", "at": 0})
    log = run.path / "logs/7.0/ranks/rank-0.log"
    log.write_text("DistNetworkError: message: address already in use\n")
    assert ("listens at MASTER_PORT itself" in fake.only().note) is is_named


@pytest.mark.parametrize(
    "cause",
    ["killed by signal 6 (SIGABRT)", "it called MPI_Abort with exit code 1", "exit code 3"],
)
def test_a_program_that_gave_up_is_quoted(fake: FakeStudy, cause: str) -> None:
    run = fake.plan(nodes=1)
    ended_in(run, "7.0", "failed", {"node": 0, "rank": 0, "cause": cause, "at": 0})
    (run.path / "logs/7.0/ranks/rank-0.log").write_text("Assertion `n > 2' failed.\n")
    assert fake.only().note == f"rank 0 (node 0, host0): {cause}: Assertion `n > 2' failed."


def test_a_command_beside_the_program_is_quoted_and_its_log_shown(fake: FakeStudy) -> None:
    run = fake.plan(nodes=1)
    cause = "dask, run beside the program by its launcher, ended: exit code 1"
    failure = {"node": 0, "rank": None, "cause": f"{cause}; see beside-0-1.log", "at": 0}
    ended_in(run, "7.0", "failed", failure)
    log = run.path / "logs/7.0/ranks/beside-0-1.log"
    log.write_text("OSError: [Errno 98] Address already in use\n")
    assert fake.only().note.startswith(f"node 0 (host0): {cause}: OSError: [Errno 98] Address")
    [failed] = failed_runs(fake.site, [run.path])
    assert failed.log == log


def test_a_checkpoint_from_which_nothing_came_is_named(fake: FakeStudy) -> None:
    run = fake.plan(nodes=1)
    ended_in(run, "7.0", "failed", {"node": 0, "rank": 0, "cause": "exit code 1", "at": 0})
    claim = run.attempt("7.0") / "claim.json"
    continues = {"attempt": "6.0", "step": 40, "unix": 1.0}
    claim.write_text(json.dumps(json.loads(claim.read_text()) | {"continues": continues}))
    folder = run.path / "checkpoints/6.0"
    said = (
        f"; it went on from step 40: if that checkpoint is damaged, delete its folder in {folder}"
    )
    assert fake.only().note.endswith(said)
    (run.path / "checkpoints/7.0/step-50").mkdir(parents=True)
    assert said not in fake.only().note


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


WAITS = "import time; print(flush=True); time.sleep(60)"


@pytest.fixture
def run(fake: FakeStudy) -> RunFiles:
    return fake.plan(nodes=2)


@pytest.fixture
def attempt() -> str:
    return f"local-1-{os.getpid()}.0"


@pytest.fixture
def script(attempt: str) -> Iterator["subprocess.Popen[bytes]"]:
    """What stands for a job's script."""
    environment = {**os.environ, "ARGOSY_ATTEMPT": attempt}
    process = subprocess.Popen(
        [sys.executable, "-c", WAITS], env=environment, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def look(run: RunFiles) -> RunView:
    (view,) = Study(run.path.parents[1]).look(1).views
    return view


def note(run: RunFiles, attempt: str, pid: int, created: float) -> None:
    entry = {
        "scheduler": "local",
        "job_id": attempt.removesuffix(".0"),
        "submitted": time.time() - 10,
        "pid": pid,
        "process_created": created,
    }
    write_json(run.path / "job.json", {"schema_version": 2, "jobs": [entry]})


def test_a_job_runs_as_long_as_its_process(
    run: RunFiles, attempt: str, script: "subprocess.Popen[bytes]"
) -> None:
    note(run, attempt, script.pid, psutil.Process(script.pid).create_time())
    starts(run, attempt, seconds_ago=30)
    view = look(run)
    assert (view.state, view.job) == (RunState.RUNNING, f"pid {script.pid}")
    assert view.nodes == "host0 +1"
    assert view.used_s == pytest.approx(30, abs=2)
    assert view.left_s == pytest.approx(570, abs=2)
    script.kill()
    script.wait()
    assert look(run).state is RunState.GONE


def test_somebody_elses_process_of_the_same_number_is_not_the_job(
    run: RunFiles, script: "subprocess.Popen[bytes]"
) -> None:
    created = psutil.Process(script.pid).create_time()
    note(run, "local-other.0", script.pid, created - 100)
    starts(run, "local-other.0")
    assert look(run).state is RunState.GONE


@pytest.mark.usefixtures("script")
def test_a_script_that_was_started_by_hand_is_seen(run: RunFiles, attempt: str) -> None:
    starts(run, attempt)
    view = look(run)
    assert (view.state, view.job) == (RunState.RUNNING, "by hand")


def test_a_run_that_waits_for_its_turn_is_planned(run: RunFiles) -> None:
    assert look(run).state is RunState.PLANNED


def test_the_site_is_found_through_a_link(run: RunFiles, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(run.path.parents[1])
    (view,) = Study(tmp_path / "link").look(1).views
    assert view.name == "digits/nodes2-ranks1-repeat1"
