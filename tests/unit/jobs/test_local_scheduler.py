"""The scheduler of this machine, with real processes."""

import json
import os
import signal
import time
from pathlib import Path

import psutil
import pytest

from argosy.errors import ArgosyError
from argosy.jobs.schedulers.base import Job, State
from argosy.jobs.schedulers.local import LocalScheduler


def script(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "job.sbatch"
    path.write_text(f"#!/bin/bash\n{text}\n")
    return path


def entry(job: Job) -> dict[str, object]:
    entries = json.loads((job.run_dir / "job.json").read_text())["jobs"]
    return next(item for item in entries if item["job_id"] == job.job_id)


def wait_for_end(job: Job, seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while LocalScheduler().poll([job])[job] is State.RUNNING:
        assert time.monotonic() < deadline, "the job does not end"
        time.sleep(0.05)


def test_a_job_runs_to_its_end_and_leaves_its_output(tmp_path: Path) -> None:
    job = LocalScheduler().submit(script(tmp_path / "a run; x", "echo $ARGOSY_JOB_ID"))
    wait_for_end(job)
    assert (job.run_dir / "logs" / f"{job.job_id}.0" / "job.log").read_text() == f"{job.job_id}\n"


def test_a_job_that_still_runs_is_attached_to_and_not_submitted_again(tmp_path: Path) -> None:
    path = script(tmp_path, "sleep 60")
    first, second = LocalScheduler().submit(path), LocalScheduler().submit(path)
    assert first == second
    LocalScheduler().cancel([first])
    third = LocalScheduler().submit(path)
    assert third != first
    LocalScheduler().cancel([third])


def test_cancelling_ends_a_job_that_cleans_up_and_kills_one_that_does_not(tmp_path: Path) -> None:
    tidy = LocalScheduler().submit(
        script(
            tmp_path / "tidy",
            "trap 'touch cleaned; exit' TERM\ncd $(dirname $0)\n"
            "touch ready\nwhile :; do sleep 0.1; done",
        )
    )
    deaf = LocalScheduler().submit(
        script(tmp_path / "deaf", "trap '' TERM\nsleep 60 & wait\nsleep 60")
    )
    while not (tmp_path / "tidy/ready").exists():
        time.sleep(0.05)
    pids = [int(str(entry(job)["pid"])) for job in (tidy, deaf)]
    LocalScheduler().cancel([tidy, deaf])
    assert (tmp_path / "tidy/cleaned").exists()
    assert not any(psutil.pid_exists(pid) and os.getsid(pid) == pid for pid in pids)
    assert set(LocalScheduler().poll([tidy, deaf]).values()) == {State.ENDED}


def test_what_a_killed_script_leaves_behind_is_ended(tmp_path: Path) -> None:
    job = LocalScheduler().submit(
        script(tmp_path, f"cd {tmp_path}\nsleep 60 & echo $! > child.new; mv child.new child\nwait")
    )
    while not (tmp_path / "child").exists():
        time.sleep(0.05)
    child = int((tmp_path / "child").read_text())
    os.kill(int(str(entry(job)["pid"])), signal.SIGKILL)
    wait_for_end(job)
    assert not psutil.pid_exists(child)


def test_another_process_with_the_same_number_is_not_the_job(tmp_path: Path) -> None:
    job = LocalScheduler().submit(script(tmp_path, "true"))
    wait_for_end(job)
    record = json.loads((tmp_path / "job.json").read_text())
    record["jobs"][0] |= {"pid": os.getpid(), "process_created": 1.0}
    (tmp_path / "job.json").write_text(json.dumps(record))
    assert LocalScheduler().poll([job])[job] is State.ENDED


def test_a_folder_from_an_older_schema_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = script(tmp_path, "true")
    (tmp_path / "job.json").write_text('{"schema_version": 0, "jobs": []}')
    with pytest.raises(ArgosyError, match=r"job.json: schema_version 0 is not 1; move this run"):
        LocalScheduler().submit(path)
    assert (tmp_path / "job.json").read_text() == '{"schema_version": 0, "jobs": []}'
