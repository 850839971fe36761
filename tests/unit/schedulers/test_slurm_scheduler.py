"""The driver's side of Slurm: lost and slow answers, and jobs that only end."""

import json
import shlex
import time
from dataclasses import replace
from pathlib import Path
from threading import Thread

import pytest
from slurm_answers import answering, queue, stand_in, table

from argosy.schedulers.base import Listed, State
from argosy.schedulers.slurm import commands
from argosy.schedulers.slurm.run_jobs import status_of
from argosy.schedulers.slurm.scheduler import PARALLEL_SUBMISSIONS, SlurmScheduler

NAME = "argosy-digits-nodes1-ranks1-repeat1"


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand-ins for Slurm's commands: only their answers matter here."""
    folder = tmp_path / "bin"
    answering(folder, "squeue", queue())
    stand_in(folder, "sacct", "exit 1")
    stand_in(folder, "scancel", f'echo "$@" >>"{folder}/cancelled"')
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    return folder


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "results/here/digits/nodes1-ranks1-repeat1"
    folder.mkdir(parents=True)
    (folder / "job.sbatch").write_text("#!/bin/bash\n")
    return folder


def row(run_dir: Path, job_id: str, state: str, name: str = NAME) -> tuple[str, ...]:
    return (job_id, state, "None", "0", "n1", name, "0:01", "1:00", "1795836145", str(run_dir))


def sbatch(tools: Path, script: str) -> None:
    stand_in(tools, "sbatch", f'echo x >>"{tools}/submitted"; {script}')


def times_submitted(tools: Path) -> int:
    return len((tools / "submitted").read_text().splitlines())


def job_ids(run_dir: Path) -> list[str]:
    path = run_dir / "job.json"
    return [job["job_id"] for job in json.loads(path.read_text())["jobs"]] if path.exists() else []


LOST = {
    "no number": "echo Welcome; echo to the cluster",
    "two numbers": "echo 2026; echo 101",
    "nothing": "true",
    "no answer": "echo 'sbatch: error: Socket timed out on send/recv operation' >&2; exit 1",
}


@pytest.mark.parametrize("script", LOST.values(), ids=LOST)
@pytest.mark.parametrize("state", ["PENDING", "RUNNING", "COMPLETING", "COMPLETED", "FAILED"])
def test_a_job_whose_number_was_lost_is_found(
    tools: Path, run_dir: Path, script: str, state: str
) -> None:
    """Jobs that were there before are others, and so are those of other runs in the same folder."""
    before = row(run_dir, "90", "COMPLETED")
    answering(tools, "squeue", queue(before))
    sbatch(tools, script)
    scheduler = SlurmScheduler(poll_s=0)
    scheduler.submit([run_dir])
    others = (row(run_dir, "102", "RUNNING", "mine"), row(run_dir.parent, "103", "RUNNING"))
    answering(tools, "squeue", queue(before, row(run_dir, "101", state), *others))
    status = scheduler.poll()[run_dir]
    assert (status.job_id, job_ids(run_dir)) == ("101", ["101"])
    assert times_submitted(tools) == 1


@pytest.mark.parametrize("script", [LOST["no number"], LOST["nothing"]])
def test_a_script_that_was_taken_and_is_nowhere_is_not_submitted_again(
    tools: Path, run_dir: Path, script: str
) -> None:
    sbatch(tools, script)
    scheduler = SlurmScheduler(poll_s=0)
    scheduler.submit([run_dir])
    states = [scheduler.poll()[run_dir] for _ in range(2)]
    assert states[0].state is State.WAITING
    assert states[1].state is State.REFUSED
    assert "sbatch accepted the script but named no job" in states[1].reason
    assert times_submitted(tools) == 1


def test_a_submission_that_slurm_never_heard_of_is_made_again(tools: Path, run_dir: Path) -> None:
    sbatch(tools, LOST["no answer"])
    scheduler = SlurmScheduler(poll_s=0)
    scheduler.submit([run_dir])
    scheduler.poll()
    sbatch(tools, "echo 101")
    assert scheduler.poll()[run_dir].job_id == "101"
    assert times_submitted(tools) == 2


def test_a_lost_job_is_cancelled_with_the_others(tools: Path, run_dir: Path) -> None:
    sbatch(tools, LOST["no number"])
    scheduler = SlurmScheduler(poll_s=0)
    scheduler.submit([run_dir])
    answering(tools, "squeue", queue(row(run_dir, "101", "RUNNING")))
    scheduler.cancel()
    assert (tools / "cancelled").read_text() == "101\n"


def test_an_interrupt_ends_submissions_of_all_threads(tools: Path, run_dir: Path) -> None:
    """The four that have begun end, and their jobs are cancelled; the others never begin."""
    runs = [run_dir.with_name(f"nodes1-ranks1-repeat{number}") for number in range(1, 10)]
    for run in runs:
        run.mkdir(exist_ok=True)
        (run / "job.sbatch").write_text("#!/bin/bash\n")
    sbatch(tools, f'until [ -e "{tools}/go" ]; do sleep 0.1; done; echo $$ | tee -a "{tools}/ids"')
    scheduler = SlurmScheduler(poll_s=0)
    poll = Thread(target=scheduler.submit, args=(runs,))
    poll.start()
    while not (tools / "submitted").exists() or times_submitted(tools) < PARALLEL_SUBMISSIONS:
        time.sleep(0.05)
    interrupt = Thread(target=scheduler.cancel)
    interrupt.start()
    interrupt.join(1)
    assert interrupt.is_alive()
    (tools / "go").touch()
    interrupt.join()
    poll.join()
    assert times_submitted(tools) == PARALLEL_SUBMISSIONS
    cancelled = (tools / "cancelled").read_text().split()
    assert sorted(cancelled) == sorted((tools / "ids").read_text().split())
    assert dict(scheduler.poll()).keys() == {run for run in runs if job_ids(run)}


def test_a_job_has_the_language_of_its_user(
    tools: Path, run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It inherits the variables of sbatch; answers of the others are read in one language."""
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    monkeypatch.delenv("SLURM_TIME_FORMAT", raising=False)
    tell = f'echo "$LC_ALL ${{SLURM_TIME_FORMAT:-none}}" >"{tools}/language"; echo 101'
    sbatch(tools, tell)
    SlurmScheduler(poll_s=0).submit([run_dir])
    assert (tools / "language").read_text() == "de_DE.UTF-8 none\n"
    stand_in(tools, "scontrol", tell)
    commands.call("scontrol")
    assert (tools / "language").read_text() == "C %s\n"


def test_a_number_that_is_no_job_s_does_not_hide_the_job(tools: Path, run_dir: Path) -> None:
    sbatch(tools, "echo users today:; echo 17")
    scheduler = SlurmScheduler(poll_s=0)
    scheduler.submit([run_dir])
    answering(tools, "squeue", queue(row(run_dir, "101", "RUNNING")))
    status = scheduler.poll()[run_dir]
    assert (status.state, status.job_id) == (State.RUNNING, "101")


def test_a_wrapper_that_fails_after_sbatch_loses_no_job(tools: Path, run_dir: Path) -> None:
    sbatch(tools, "echo 101; echo no mail >&2; exit 1")
    scheduler = SlurmScheduler(poll_s=0)
    scheduler.submit([run_dir])
    assert job_ids(run_dir) == ["101"]


@pytest.mark.parametrize(
    ("verdict", "state"),
    [
        ("completed", State.COMPLETED),
        ("failed", State.FAILED),
        ("interrupted", State.ENDING),
        ("cancelled", State.ENDING),
        (None, State.ENDING),
    ],
)
@pytest.mark.parametrize("slurms", ["COMPLETING", "STAGE_OUT"])
def test_a_run_is_done_before_its_job_is(
    tools: Path, run_dir: Path, slurms: str, verdict: str | None, state: State
) -> None:
    """One that may go back into the queue is not."""
    sbatch(tools, "echo 101")
    scheduler = SlurmScheduler(poll_s=0)
    scheduler.submit([run_dir])
    answering(tools, "squeue", queue(row(run_dir, "101", slurms)))
    if verdict:
        conclude(run_dir, "101.0", verdict)
    assert scheduler.poll()[run_dir].state is state


def conclude(run_dir: Path, attempt: str, state: str) -> None:
    """Leave an attempt's verdict."""
    content = {
        "schema_version": 2,
        "run_id": "nodes1-ranks1-repeat1",
        "attempt": attempt,
        "state": state,
        "started": 1.0,
        "ended": 2.0,
        "seconds": 1.0,
        "hosts": ["n1"],
        "failure": None,
    }
    folder = run_dir / "attempts" / attempt
    folder.mkdir(parents=True)
    (folder / "verdict.json").write_text(json.dumps(content))


def test_a_new_job_is_not_attached_to_one_that_ends(tools: Path, run_dir: Path) -> None:
    answering(tools, "squeue", queue(row(run_dir, "90", "COMPLETING")))
    conclude(run_dir, "90.0", "failed")
    sbatch(tools, "echo 101")
    SlurmScheduler(poll_s=0).submit([run_dir])
    assert job_ids(run_dir) == ["101"]
    assert not (tools / "cancelled").exists()


def test_a_job_that_no_driver_noted_is_taken_over_and_noted(tools: Path, run_dir: Path) -> None:
    """Its driver died before the note. A second job with the same script would measure the run twice."""
    other = row(run_dir, "89", "PENDING", "mine")
    jobs = (row(run_dir, "90", "RUNNING"), row(run_dir, "91", "PENDING"))
    answering(tools, "squeue", queue(other, *jobs))
    stand_in(tools, "scontrol", f'cp {shlex.quote(str(run_dir / "job.sbatch"))} "$4"')
    sbatch(tools, "echo 101")
    scheduler = SlurmScheduler(poll_s=0)
    scheduler.submit([run_dir])
    assert scheduler.poll()[run_dir].state is State.RUNNING
    assert job_ids(run_dir) == ["90"]
    assert (tools / "cancelled").read_text() == "91\n"
    assert not (tools / "submitted").exists()


def test_a_run_of_a_shared_job_has_its_own_status(run_dir: Path) -> None:
    job = Listed("101", State.RUNNING, "", 0, "n1", "argosy-digits-allocation-repeat1", run_dir)
    assert status_of(run_dir, job).reason == "earlier runs of job 101"
    # It has begun again within the job.
    (run_dir / "attempts/101.0-1").mkdir(parents=True)
    assert status_of(run_dir, job).state is State.RUNNING
    conclude(run_dir, "101.0-2", "failed")
    assert status_of(run_dir, job).state is State.FAILED
    requeued = replace(job, state=State.REQUEUED, restarts=1)
    assert status_of(run_dir, requeued).state is State.REQUEUED
    conclude(run_dir, "101.0-3", "completed")
    assert status_of(run_dir, requeued).state is State.COMPLETED


LIMIT = (
    "echo 'sbatch: error: AssocMaxSubmitJobLimit' >&2; echo 'sbatch: error: Batch job submission failed: "
    "Job violates accounting/QOS policy (job submit limit, user'\\''s size and/or time limits)' >&2; exit 1"
)


def test_a_full_limit_is_waited_for_without_a_job_of_the_study(tools: Path, run_dir: Path) -> None:
    sbatch(tools, LIMIT)
    scheduler = SlurmScheduler(poll_s=0)
    scheduler.submit([run_dir])
    status = scheduler.poll()[run_dir]
    assert status.state is State.WAITING
    assert "have reached the account's limit per user (AssocMaxSubmitJobLimit)" in status.reason
    sbatch(tools, "echo 101")
    scheduler.poll()
    assert job_ids(run_dir) == ["101"]


def accounts(*rows: tuple[str, str]) -> str:
    """What sacct answers."""
    return table(("JobIDRaw", "State"), rows)


def forgotten(tools: Path, run_dir: Path, says: str) -> SlurmScheduler:
    """A driver whose job was there once and which slurmctld has forgotten since."""
    sbatch(tools, "echo 101")
    answering(tools, "sacct", accounts(("101", says)))
    scheduler = SlurmScheduler(poll_s=0)
    scheduler.submit([run_dir])
    answering(tools, "squeue", queue(row(run_dir, "101", "RUNNING")))
    scheduler.poll()
    answering(tools, "squeue", queue())
    return scheduler


ACTIVE = ["REQUEUED", "RUNNING", "PENDING", "COMPLETING", "SUSPENDED", "RESIZING", "", "STRANGE"]


@pytest.mark.parametrize("says", ACTIVE)
def test_a_forgotten_job_does_not_go_on_because_the_accounts_say_so(
    tools: Path, run_dir: Path, says: str
) -> None:
    scheduler = forgotten(tools, run_dir, says)
    assert scheduler.poll()[run_dir].state is State.RUNNING
    assert scheduler.poll()[run_dir].state is State.GONE


@pytest.mark.parametrize("says", ["REQUEUED", "PREEMPTED", "NODE_FAIL", "TIMEOUT"])
@pytest.mark.parametrize(
    ("verdict", "state"), [("completed", State.COMPLETED), ("failed", State.FAILED)]
)
def test_the_verdict_of_a_forgotten_job_counts_first(
    tools: Path, run_dir: Path, says: str, verdict: str, state: State
) -> None:
    scheduler = forgotten(tools, run_dir, says)
    conclude(run_dir, "101.0", verdict)
    assert scheduler.poll()[run_dir].state is state


def test_one_that_is_back_in_the_queue_is_gone_after_two_more_looks(
    tools: Path, run_dir: Path
) -> None:
    scheduler = forgotten(tools, run_dir, "REQUEUED")
    scheduler.poll()
    answering(tools, "squeue", queue(row(run_dir, "101", "PENDING")))
    assert scheduler.poll()[run_dir].state is State.PENDING
    answering(tools, "squeue", queue())
    states = [scheduler.poll()[run_dir].state for _ in range(2)]
    assert states == [State.PENDING, State.GONE]


def test_accounts_that_failed_once_are_asked_again(tools: Path, run_dir: Path) -> None:
    scheduler = forgotten(tools, run_dir, "CANCELLED by 1001")
    stand_in(tools, "sacct", "echo 'sacct: error: Problem talking to the database' >&2; exit 1")
    assert scheduler.poll()[run_dir].state is State.RUNNING
    answering(tools, "sacct", accounts(("101", "CANCELLED by 1001")))
    assert scheduler.poll()[run_dir].state is State.CANCELLED


@pytest.fixture
def slow(tools: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A queue that is slower than the first patience."""
    stand_in(tools, "squeue", f"sleep 1; echo {shlex.quote(queue())}")
    stand_in(tools, "sbatch", "echo 77")
    monkeypatch.setattr(commands, "QUESTION_TIMEOUT_S", 0.4)
    return tools


def test_a_run_is_submitted_though_squeue_is_slower_than_the_first_patience(
    slow: Path, run_dir: Path
) -> None:
    scheduler = SlurmScheduler(poll_s=0)
    scheduler.submit([run_dir])
    assert scheduler.trouble is not None
    assert "squeue: no answer for 0 s" in scheduler.trouble
    assert "nothing is submitted until it answers" in scheduler.trouble
    states = [scheduler.poll()[run_dir].state for _ in range(2)]
    assert states[0] is State.WAITING
    assert states[1] is not State.WAITING
    assert scheduler.trouble is None
    assert '"job_id": "77"' in (run_dir / "job.json").read_text()


def test_patience_has_an_end(slow: Path, run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "LONGEST_QUESTION_S", 0.6)
    patience = commands.Patience()
    for _ in range(3):
        with pytest.raises(commands.LateError):
            patience.ask("squeue")
    assert patience.limit_s == 0.6
