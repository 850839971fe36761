"""Runs batch scripts as processes of this machine."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from argosy.errors import ArgosyError
from argosy.files import write_json
from argosy.jobs.schedulers.base import Job, State

CANCEL_GRACE_S = 8.0
"""From asking a job to end until what is left of it is killed."""

SAME_PROCESS_S = 1.0
"""Process ids are used again; one that began at another time than recorded is somebody else's."""


class LocalScheduler:
    """A scheduler without a queue: a job is a process group, its id the time and the process id."""

    def submit(self, script: Path) -> Job:
        """Start the script in a session of its own, or attach to it where it is still running."""
        run_dir = script.parent
        last = _last_entry(run_dir)
        if last and _process_of(last):
            return Job(run_dir, str(last["job_id"]))
        job_id = (
            f"local-{time.strftime('%Y%m%dT%H%M%S')}-{os.getpid()}-{time.monotonic_ns() % 10**6}"
        )
        log = run_dir / "logs" / f"{job_id}.0" / "job.log"
        log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with log.open("wb") as output:
            process = subprocess.Popen(
                ["bash", script],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, "ARGOSY_JOB_ID": job_id},
            )
        created = psutil.Process(process.pid).create_time()
        entry = {"scheduler": "local", "job_id": job_id, "submitted": time.time()}
        _add_entry(run_dir, {**entry, "pid": process.pid, "process_created": created})
        return Job(run_dir, job_id)

    def poll(self, jobs: Iterable[Job]) -> Mapping[Job, State]:
        """A job runs as long as its script's process does, or what a killed script left behind."""
        return {job: State.RUNNING if _still_runs(job) else State.ENDED for job in jobs}

    def cancel(self, jobs: Iterable[Job]) -> None:
        """Ask all scripts to end, each of which ends its nodes, and kill what is left."""
        scripts = [process for job in jobs if (process := _process(job))]
        families = [process for script in scripts for process in _family(script)]
        for script in scripts:
            with suppress(ProcessLookupError):
                os.kill(script.pid, signal.SIGTERM)
        _, alive = psutil.wait_procs(families, timeout=CANCEL_GRACE_S)
        for process in alive:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(alive, timeout=2)


def _family(process: psutil.Process) -> list[psutil.Process]:
    with suppress(psutil.NoSuchProcess):
        return [process, *process.children(recursive=True)]
    return []


def _still_runs(job: Job) -> bool:
    if _process(job):
        return True
    left = _left_behind(job)
    for process in left:
        with suppress(psutil.NoSuchProcess):
            process.terminate()
    return bool(left)


def _left_behind(job: Job) -> list[psutil.Process]:
    """The nodes of a script that was killed: processes of its session, which has lost its leader."""
    leader = next(
        int(entry["pid"]) for entry in _entries(job.run_dir) if entry["job_id"] == job.job_id
    )
    if psutil.pid_exists(leader):
        return []
    return [process for process in psutil.process_iter() if _session(process.pid) == leader]


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except (ProcessLookupError, PermissionError):
        return None


def _process(job: Job) -> psutil.Process | None:
    for entry in reversed(_entries(job.run_dir)):
        if entry["job_id"] == job.job_id:
            return _process_of(entry)
    return None


def _process_of(entry: Mapping[str, Any]) -> psutil.Process | None:
    """The entry's process while it lives; a child that ended is reaped on the way."""
    try:
        process = psutil.Process(int(entry["pid"]))
        if abs(process.create_time() - float(entry["process_created"])) > SAME_PROCESS_S:
            return None
        if process.status() == psutil.STATUS_ZOMBIE:
            with suppress(ChildProcessError):
                os.waitpid(process.pid, os.WNOHANG)
            return None
    except psutil.NoSuchProcess:
        return None
    return process


def _last_entry(run_dir: Path) -> Mapping[str, Any] | None:
    entries = _entries(run_dir)
    return entries[-1] if entries else None


def _entries(run_dir: Path) -> list[dict[str, Any]]:
    path = run_dir / "job.json"
    if not path.is_file():
        return []
    content = json.loads(path.read_text(encoding="utf-8"))
    if content.get("schema_version") != 1:
        raise ArgosyError(
            f"{path}: schema_version {content.get('schema_version')} is not 1; "
            "move this run's folder away and run again"
        )
    entries: list[dict[str, Any]] = content["jobs"]
    return entries


def _add_entry(run_dir: Path, entry: dict[str, Any]) -> None:
    jobs = [*_entries(run_dir), entry]
    write_json(run_dir / "job.json", {"schema_version": 1, "jobs": jobs})
