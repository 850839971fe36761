"""Runs batch scripts as processes of this machine, one after another.

Concurrent runs would disturb each other's measurements, so a queue starts one at a time.
"""

import os
import signal
import subprocess
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import psutil

import argosy
from argosy.run_folder.folder import SCRIPT
from argosy.run_folder.job_file import add_job, newest_job, script_digest
from argosy.run_folder.models import Job
from argosy.schedulers.base import State, Status
from argosy.schedulers.local.time_limit import Enforcer
from argosy.schedulers.missing_images import missing_image
from argosy_common.files import umask

CANCEL_GRACE_S = 8.0
"""Seconds from SIGTERM to SIGKILL."""

SAME_PROCESS_S = 1.0
"""Tolerance of a process's recorded start time. Process ids are reused: at another start time, only
variables that name the job identify its process."""

PAUSES_S = (0.0, 0.01, 0.05)
"""Pauses before each look at a process, which may seem gone or unreadable for a moment during exec.

Observed in some of 30,000 starts on Linux 6.18. So one positive look identifies the job's process.
"""

_RUNTIME = Path(argosy.__file__).parent / "runtime"


class LocalScheduler:
    """Runs each job as a process group; a job's id contains the time and the driver's process id."""

    avoids_bad_nodes = False
    cancel_command = "kill"
    pause_s = 0.5
    trouble = None

    def __init__(self) -> None:
        self._queue: list[Path] = []
        self._running: dict[Path, Job] = {}
        self._refused: dict[Path, Status] = {}
        self._limits: dict[Path, Enforcer] = {}

    def submit(self, run_dirs: Iterable[Path]) -> None:
        """Attach to scripts that still run, and queue the others.

        A running script that differs from its current file is ended first.
        """
        outdated: list[Job] = []
        for run_dir in run_dirs:
            job = newest_job(run_dir)
            # A copied run's job.json names a process of another folder.
            if job and job.script in (None, str(run_dir / SCRIPT)) and _process_of(job):
                if job.script_sha256 == script_digest(run_dir / SCRIPT):
                    self._running[run_dir] = job
                    continue
                outdated.append(job)
            self._queue.append(run_dir)
        _end(outdated)
        self._start_next()

    def poll(self) -> Mapping[Path, Status]:
        """Return the statuses, and end jobs over their time limit.

        A job runs while its script lives, or processes that a killed script left.
        """
        statuses = {
            run_dir: Status(self._state(run_dir, job), job.job_id)
            for run_dir, job in self._running.items()
        }
        for run_dir, status in statuses.items():
            if not status.state.active:
                del self._running[run_dir]
                self._limits.pop(run_dir, None)
        self._start_next()
        refused, self._refused = self._refused, {}
        waiting = Status(State.PENDING, reason="another run uses this machine")
        return {**dict.fromkeys(self._queue, waiting), **statuses, **refused}

    def cancel(self) -> None:
        """End all scripts and drop waiting runs."""
        self._queue.clear()
        _end(self._running.values())

    def _state(self, run_dir: Path, job: Job) -> State:
        state = _state(job)
        limit = self._limits.get(run_dir)
        if state is State.RUNNING and (script := _process_of(job)):
            with suppress(psutil.NoSuchProcess):
                limit = limit or Enforcer(run_dir, job.job_id, script, lambda: _family(script))
                self._limits[run_dir] = limit
                limit.enforce()
        return State.TIMEOUT if limit and limit.ended and not state.active else state

    def _start_next(self) -> None:
        while self._queue and not self._running:
            run_dir = self._queue.pop(0)
            if problem := missing_image(run_dir):
                self._refused[run_dir] = Status(State.REFUSED, reason=problem)
            else:
                self._running[run_dir] = _start(run_dir)


def _start(run_dir: Path) -> Job:
    """Start the run's script in its own session, and return its job."""
    job_id = f"local-{time.strftime('%Y%m%dT%H%M%S')}-{os.getpid()}-{time.monotonic_ns() % 10**6}"
    log = run_dir / "logs" / f"{job_id}.0" / "job.log"
    log.parent.parent.mkdir(exist_ok=True, mode=0o777 & ~umask())
    log.parent.mkdir(mode=0o777 & ~umask())
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with os.fdopen(os.open(log, flags, 0o666 & ~umask()), "wb") as output:
        process = subprocess.Popen(
            ["bash", run_dir / SCRIPT],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, "ARGOSY_JOB_ID": job_id},
        )
    job = Job(
        scheduler="local",
        job_id=job_id,
        submitted=time.time(),
        script=str(run_dir / SCRIPT),
        script_sha256=script_digest(run_dir / SCRIPT),
        pid=process.pid,
        process_created=psutil.Process(process.pid).create_time(),
    )
    add_job(run_dir, job)
    return job


def _end(jobs: Collection[Job]) -> None:
    """Send SIGTERM to scripts, which end their nodes, and kill the remaining processes."""
    scripts = [process for job in jobs if (process := _process_of(job))]
    families = [process for script in scripts for process in _family(script)]
    for script in scripts:
        with suppress(ProcessLookupError):
            os.kill(script.pid, signal.SIGTERM)
    _, alive = psutil.wait_procs(families, timeout=CANCEL_GRACE_S)
    _kill(alive)
    # Processes that a script started after its family was listed.
    _kill([process for job in jobs for process in _left_behind(job)])


def _state(job: Job) -> State:
    if _process_of(job):
        return State.RUNNING
    left = _left_behind(job)
    for process in left:
        with suppress(psutil.NoSuchProcess):
            process.terminate()
    return State.RUNNING if left else State.GONE


def _kill(processes: list[psutil.Process]) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(processes, timeout=2)


def _family(process: psutil.Process) -> list[psutil.Process]:
    with suppress(psutil.NoSuchProcess):
        return [process, *process.children(recursive=True)]
    return []


def _left_behind(job: Job) -> list[psutil.Process]:
    """Return processes of a killed script's session, which has lost its leader."""
    if job.pid is None or psutil.pid_exists(leader := job.pid):
        return []
    return [
        process
        for process in psutil.process_iter()
        if _session(process.pid) == leader and _is_of(process, job.job_id)
    ]


def _is_of(process: psutil.Process, job_id: str) -> bool:
    """Return whether this job started the process; job.json alone is no proof."""
    for pause_s in PAUSES_S:
        time.sleep(pause_s)
        if _looks_like_of(process, job_id):
            return True
    return False


def _is_leader_of(process: psutil.Process, job_id: str) -> bool:
    """Return whether this is the job's script, whatever its start time.

    Setting the machine's clock moves the start times of all processes.
    """
    try:
        named = process.environ().get("ARGOSY_JOB_ID") == job_id
    except psutil.AccessDenied:
        return False
    return named and _session(process.pid) == process.pid


def _looks_like_of(process: psutil.Process, job_id: str) -> bool:
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return True  # its variables are unreadable, and signals are harmless to it
        return _shows_job(process, job_id)
    except psutil.NoSuchProcess:
        # An ending process shows no variables; it counts until its pid is free.
        return psutil.pid_exists(process.pid)


def _shows_job(process: psutil.Process, job_id: str) -> bool:
    """Return whether a process's variables name this job, or its command if they are hidden.

    A process that is starting or ending has neither, or only a command, and counts; so does a process
    without any variables.
    """
    command = process.cmdline()
    if not command:
        return True
    try:
        variables = process.environ()
        return not variables or variables.get("ARGOSY_JOB_ID") == job_id
    except psutil.AccessDenied:
        # The environment is hidden, or the process is ending.
        return str(_RUNTIME / "agent") in command or not process.cmdline()


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except (ProcessLookupError, PermissionError):
        return None


def _process_of(job: Job) -> psutil.Process | None:
    """Return the job's live process, or None; an ended child is reaped."""
    if job.scheduler != "local" or job.pid is None or job.process_created is None:
        return None
    for pause_s in PAUSES_S:
        time.sleep(pause_s)
        with suppress(psutil.NoSuchProcess):
            return _living(psutil.Process(job.pid), job.process_created, job.job_id)
        if not psutil.pid_exists(job.pid):
            break
    return None


def _living(process: psutil.Process, created: float, job_id: str) -> psutil.Process | None:
    """Return the process if it belongs to the job and has not ended.

    Raises:
        psutil.NoSuchProcess: if it is gone, or seems to be.
    """
    same_date = abs(process.create_time() - created) <= SAME_PROCESS_S
    if not same_date and not _is_leader_of(process, job_id):
        raise psutil.NoSuchProcess(process.pid)
    if process.status() == psutil.STATUS_ZOMBIE:
        with suppress(ChildProcessError):
            os.waitpid(process.pid, os.WNOHANG)
        return None
    return process if _is_of(process, job_id) else None
