"""The scheduler of this machine, with real processes."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from run_files import run_spec

import argosy.runtime
from argosy.jobs.verdicts import read_ending, settle
from argosy.run_folder.job_file import add_job, newest_job, read_jobs
from argosy.run_folder.models import Job
from argosy.schedulers.base import State, Status
from argosy.schedulers.local import scheduler as local
from argosy.schedulers.local import time_limit
from argosy.schedulers.local.scheduler import LocalScheduler
from argosy.schedulers.local.time_limit import limits_of
from argosy_common.errors import ArgosyError

VERDICT = Path(argosy.runtime.__file__).parent / "verdict.py"


def run_with(folder: Path, text: str) -> Path:
    """A run's folder with this script."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "job.sbatch").write_text(f"#!/bin/bash\n{text}\n")
    return folder


def submitted(*run_dirs: Path) -> LocalScheduler:
    scheduler = LocalScheduler()
    scheduler.submit(run_dirs)
    return scheduler


def pid(run_dir: Path) -> int:
    entry = newest_job(run_dir)
    assert entry
    assert entry.pid
    return entry.pid


def wait_for_end(scheduler: LocalScheduler, run_dir: Path, seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while scheduler.poll()[run_dir].state.active:
        assert time.monotonic() < deadline, "the job does not end"
        time.sleep(0.05)


def test_a_job_runs_to_its_end_and_leaves_its_output(tmp_path: Path) -> None:
    run = run_with(tmp_path / "a run; x", "echo $ARGOSY_JOB_ID")
    scheduler = submitted(run)
    wait_for_end(scheduler, run)
    entry = newest_job(run)
    assert entry
    log = run / "logs" / f"{entry.job_id}.0" / "job.log"
    assert log.read_text() == f"{entry.job_id}\n"
    assert scheduler.poll() == {}


def test_one_job_runs_at_a_time(tmp_path: Path) -> None:
    mark = tmp_path / "running"
    text = f"[ ! -e {mark} ] || exit 1\ntouch {mark}\nsleep 0.3\nrm {mark}\ntouch done"
    runs = [run_with(tmp_path / name, f"cd {tmp_path / name}\n{text}") for name in "abc"]
    scheduler = submitted(*runs)
    states = scheduler.poll()
    assert [states[run].state for run in runs] == [State.RUNNING, State.PENDING, State.PENDING]
    for run in runs:
        wait_for_end(scheduler, run)
        assert (run / "done").exists()


def test_a_job_that_still_runs_is_attached_to_and_not_submitted_again(tmp_path: Path) -> None:
    run = run_with(tmp_path, "exec sleep 60")
    first, second = submitted(run), submitted(run)
    assert len(read_jobs(run)) == 1
    second.cancel()
    assert not first.poll()[run].state.active
    third = submitted(run)
    assert len(read_jobs(run)) == 2
    third.cancel()


def has_ended(process: int) -> bool:
    """Whether it is no more, or waits for init alone, which may take its time."""
    try:
        return psutil.Process(process).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.mark.slow
def test_cancelling_ends_a_job_that_cleans_up_and_kills_one_that_does_not(tmp_path: Path) -> None:
    tidy = run_with(
        tmp_path / "tidy",
        "trap 'touch cleaned; exit' TERM\ncd $(dirname $0)\n"
        "touch ready\nwhile :; do sleep 0.1; done",
    )
    deaf = run_with(tmp_path / "deaf", "trap '' TERM\nsleep 60 & wait\nsleep 60")
    schedulers = [submitted(tidy), submitted(deaf)]
    while not (tmp_path / "tidy/ready").exists():
        time.sleep(0.05)
    for scheduler in schedulers:
        scheduler.cancel()
    assert (tmp_path / "tidy/cleaned").exists()
    for run in (tidy, deaf):
        assert not (psutil.pid_exists(pid(run)) and os.getsid(pid(run)) == pid(run))
    states = [scheduler.poll() for scheduler in schedulers]
    assert states[0][tidy].state is State.GONE
    assert states[1][deaf].state is State.GONE


@pytest.mark.parametrize("command", ["sleep 60", "env -i sleep 60"])
def test_what_a_killed_script_leaves_behind_is_ended(command: str, tmp_path: Path) -> None:
    """Without variables too, as any program is for a moment while it is loaded."""
    run = run_with(
        tmp_path, f"cd {tmp_path}\n{command} & echo $! > child.new; mv child.new child\nwait"
    )
    scheduler = submitted(run)
    while not (tmp_path / "child").exists():
        time.sleep(0.05)
    child = int((tmp_path / "child").read_text())
    os.kill(pid(run), signal.SIGKILL)
    wait_for_end(scheduler, run)
    assert has_ended(child)


def test_another_process_with_the_same_number_is_not_the_job(tmp_path: Path) -> None:
    run = run_with(tmp_path, "exec sleep 60")
    submitted(run)
    mine = pid(run)
    entry = newest_job(run)
    assert entry
    assert local._state(entry) is State.RUNNING
    other = entry.model_copy(update={"pid": os.getpid(), "process_created": 1.0})
    assert local._state(other) is State.GONE
    os.kill(mine, signal.SIGKILL)
    os.waitpid(mine, 0)


def test_a_folder_from_an_older_schema_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    run = run_with(tmp_path, "true")
    (tmp_path / "job.json").write_text(json.dumps({"schema_version": 0, "jobs": []}))
    with pytest.raises(
        ArgosyError, match=r"job.json: its schema_version is 0; this Argosy reads 2"
    ):
        submitted(run)
    assert (tmp_path / "job.json").read_text() == '{"schema_version": 0, "jobs": []}'


def test_a_script_that_is_another_one_by_now_is_ended_and_the_new_one_runs(tmp_path: Path) -> None:
    run = run_with(tmp_path, "exec sleep 60")
    submitted(run)
    older = pid(run)
    run_with(tmp_path, f"cd {tmp_path}\ntouch done")
    scheduler = submitted(run)
    assert has_ended(older)
    wait_for_end(scheduler, run)
    assert (tmp_path / "done").exists()


def test_a_copied_run_is_not_the_job_that_runs_in_the_original(tmp_path: Path) -> None:
    original = run_with(tmp_path / "original", "exec sleep 60")
    scheduler = submitted(original)
    shutil.copytree(original, tmp_path / "copy", copy_function=shutil.copy2)
    copy = run_with(tmp_path / "copy", f"cd {tmp_path}/copy\ntouch done")
    of_copy = submitted(copy)
    wait_for_end(of_copy, copy)
    assert (copy / "done").exists()
    assert scheduler.poll()[original].state is State.RUNNING
    scheduler.cancel()


def limited(folder: Path, text: str, seconds: float, **run: object) -> Path:
    """A run's folder whose job may take so long."""
    run_dir = run_with(folder, text)
    spec = run_spec(time_limit_s=seconds, **run)
    (run_dir / "run.json").write_text(json.dumps(spec.content()))
    return run_dir


def test_a_job_s_limit_is_of_the_run_that_it_claimed(tmp_path: Path) -> None:
    run_dir = limited(tmp_path, "", 600)
    claim = {"schema_version": 2, "continues": None, "run": run_spec(time_limit_s=5).content()}
    attempt = run_dir / "attempts/7.0"
    attempt.mkdir(parents=True)
    (attempt / "claim.json").write_text(json.dumps(claim))
    assert limits_of(run_dir, "7.0") == (5, None)
    assert limits_of(run_dir, "8.0") == (600, None)


# As a real script does: it has claimed the run, hears of the end, and has the verdict written.
LISTENING = f"""
cd "$(dirname "$0")"
mkdir -p "attempts/$ARGOSY_JOB_ID.0"
trap 'touch ended; exec "{sys.executable}" "{VERDICT}" . "$ARGOSY_JOB_ID.0"' TERM
trap 'touch warned' USR1
touch ready
while :; do sleep 0.1; done
"""


def ending(scheduler: LocalScheduler, run: Path) -> Status:
    deadline = time.monotonic() + 20
    while (status := scheduler.poll()[run]).state.active:
        assert time.monotonic() < deadline, "the job does not end"
        time.sleep(0.05)
    return status


def test_a_job_over_its_time_limit_is_ended_and_that_is_the_cause(tmp_path: Path) -> None:
    run = limited(tmp_path, LISTENING, 1.0)
    began = time.monotonic()
    status = ending(submitted(run), run)
    assert 0.95 < time.monotonic() - began < 10
    assert status.state is State.TIMEOUT
    assert (run / "ended").exists()
    assert not (run / "warned").exists()
    found = read_ending(run, status)
    assert not found.completed
    assert "failed: ended by Argosy: time limit; raise resources.time, or let" in found.message


def test_a_time_limit_does_not_depend_on_the_date_of_the_machines_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which is known to the second only, and which a clock that is set right changes."""
    too_early = psutil.boot_time() - 3600
    monkeypatch.setattr("psutil._pslinux.boot_time", lambda: too_early)
    run = limited(tmp_path, LISTENING, 3.0)
    began = time.monotonic()
    assert ending(submitted(run), run).state is State.TIMEOUT
    assert 2.95 < time.monotonic() - began < 12


def test_a_clock_that_is_set_makes_no_job_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_with(tmp_path, f"cd {tmp_path}\ntouch ready\nwhile :; do sleep 0.1; done")
    scheduler = submitted(run)
    before = pid(run)
    while not (run / "ready").exists():
        time.sleep(0.05)
    wrong = psutil.boot_time() + 3600
    monkeypatch.setattr("psutil._pslinux.boot_time", lambda: wrong)
    assert scheduler.poll()[run].state is State.RUNNING
    assert submitted(run).poll()[run].state is State.RUNNING
    assert pid(run) == before
    scheduler.cancel()
    assert has_ended(before)


def test_a_job_with_checkpoints_is_warned_before_its_time_limit(tmp_path: Path) -> None:
    run = limited(tmp_path, LISTENING, 3.0, checkpoints={"warning_s": 2, "requeues": 0})
    scheduler = submitted(run)
    while not (run / "warned").exists():
        assert scheduler.poll()[run].state is State.RUNNING
        time.sleep(0.05)
    assert not (run / "ended").exists()
    assert ending(scheduler, run).state is State.TIMEOUT


def test_a_job_that_heeds_no_signal_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time_limit, "KILL_WAIT_S", 1)
    run = limited(tmp_path, "trap '' TERM\nsleep 60 & wait", 1)
    status = ending(submitted(run), run)
    assert status.state is State.TIMEOUT
    settle(run, status, None)
    said = read_ending(run, status).message
    assert "failed: ended by Argosy: time limit; raise resources.time, or let" in said


def test_a_driver_that_attaches_holds_the_job_to_its_limit(tmp_path: Path) -> None:
    run = limited(tmp_path, LISTENING, 600)
    submitted(run)  # whose driver does not come back
    while not (run / "ready").exists():
        time.sleep(0.05)
    limited(tmp_path, LISTENING, 1)
    status = ending(submitted(run), run)
    assert status.state is State.TIMEOUT
    assert len(read_jobs(run)) == 1
    assert "ended by Argosy: time limit" in read_ending(run, status).message


def test_a_forged_entry_ends_nobody_else_s_process(tmp_path: Path) -> None:
    run = run_with(tmp_path, "exit 1")
    leader = subprocess.Popen(
        ["sh", "-c", "sleep 60 & echo $!"], stdout=subprocess.PIPE, start_new_session=True
    )
    assert leader.stdout
    orphan = psutil.Process(int(leader.stdout.readline()))
    other = psutil.Popen(["sleep", "60"], start_new_session=True)
    try:
        leader.wait()
        for process in (orphan.pid, other.pid):
            # Of the one the session has lost its leader; the other is named with the right start time.
            entry = Job(
                scheduler="local",
                job_id=f"local-{process}",
                pid=leader.pid if process == orphan.pid else other.pid,
                process_created=other.create_time(),
                script_sha256="of another script",
            )
            add_job(run, entry)
            submitted(run).cancel()
            local._end([entry])
            assert not local._state(entry).active
        assert orphan.is_running() and orphan.status() != psutil.STATUS_ZOMBIE
        assert other.is_running() and other.status() != psutil.STATUS_ZOMBIE
    finally:
        for each in (orphan, other):
            each.kill()


@pytest.mark.slow
def test_a_script_is_ours_from_its_first_moment_to_its_last(tmp_path: Path) -> None:
    """A process shows no variables while its program is loaded, nor while it ends: it counts as running."""
    for number in range(150):
        run = run_with(
            tmp_path / str(number), f"cd {tmp_path}/{number}\nsleep 60 & echo $! > child\nwait"
        )
        scheduler = submitted(run)
        states = [scheduler.poll()[run].state for _ in range(3)]
        assert states == [State.RUNNING] * 3
        while not (run / "child").exists() or not (run / "child").read_text():
            time.sleep(0.001)
        child = int((run / "child").read_text())
        os.kill(pid(run), signal.SIGKILL)
        while not has_ended(child):
            assert scheduler.poll()[run].state.active or has_ended(child)


@pytest.mark.parametrize(
    ("method", "problem"),
    [("environ", psutil.AccessDenied), ("create_time", psutil.NoSuchProcess)],
)
def test_a_process_that_shows_nothing_for_a_moment_still_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, problem: type[psutil.Error]
) -> None:
    run = run_with(tmp_path, "exec sleep 60")
    scheduler = submitted(run)
    answer, refused = getattr(psutil.Process, method), [True]

    def refused_once(process: psutil.Process) -> object:
        if refused:
            refused.pop()
            raise problem(process.pid)
        return answer(process)

    monkeypatch.setattr(psutil.Process, method, refused_once)
    assert scheduler.poll()[run].state is State.RUNNING
    assert not refused
    scheduler.cancel()
