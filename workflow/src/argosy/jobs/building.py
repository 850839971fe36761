"""Builds an image by a job, for sites that allow no builds on login nodes, and follows the job.

The job runs the same build as `argosy image build` on a login node. A build attaches to the job of an
earlier call that was killed. If all steps are cached, no job is submitted.
"""

import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from argosy.jobs.planning import Project
from argosy.run_folder.folder import SCRIPT, scheduler_log_of
from argosy.run_folder.growing_log import GrowingLog
from argosy.schedulers import find_batch_system
from argosy.schedulers.base import Say, Scheduler, SchedulerError, State, Status
from argosy.schedulers.job_request import JobRequest
from argosy.schedulers.script_template import ScriptTemplate
from argosy.shipped.files import image_folder, image_folders
from argosy.site.models import Site
from argosy.site.placement import Request, place
from argosy_common.errors import ArgosyError
from argosy_common.files import write_text
from argosy_common.reading import NotReadError, read_end, site_of
from argosy_images import ImageLock, Plan, build_image

GLANCE_S = 0.5
"""Seconds between two reads of the job's log, which need no query of the scheduler."""


def follow(
    scheduler: Scheduler, job_dir: Path, say: Callable[[str], None], out: BinaryIO
) -> Status:
    """Attach to the job of `job_dir` or submit it, copy its log to `out`, and return its final status."""
    scheduler.submit([job_dir])
    log: GrowingLog | None = None
    last_line = ""
    while True:
        status = scheduler.poll()[job_dir]
        line = scheduler.trouble or _describe(status)
        if line != last_line:
            say(line)
            last_line = line
        if status.job_id and log is None:
            log = GrowingLog(scheduler_log_of(job_dir, status.job_id), site_of(job_dir))
        _wait(scheduler.pause_s if status.state.active else 0, log, out)
        if not status.state.active:
            return status


def _describe(status: Status) -> str:
    if status.state is State.REFUSED:
        return "the scheduler refuses the job"
    reason = f" ({status.reason})" if status.reason else ""
    where = f" on {status.nodes}" if status.nodes and status.state is State.RUNNING else ""
    job = f"job {status.job_id}" if status.job_id else "job"
    return f"{job}: {status.state.value}{where}{reason}"


def _wait(seconds: float, log: GrowingLog | None, out: BinaryIO) -> None:
    """Wait, and copy new content of the log meanwhile."""
    until = time.monotonic() + seconds
    while True:
        if log:
            with suppress(FileNotFoundError, NotReadError):
                log.copy(out)
        left = until - time.monotonic()
        if left <= 0:
            return
        time.sleep(min(GLANCE_S, left))


TEMPLATE = "build.sbatch.j2"
_LOG_BYTES = 1 << 20

REQUEST = Request(nodes=1, ranks_per_node=1, cpus=4, gpus=0, memory=3500, time=2 * 3600)
"""Resources for four concurrent compilers. After a timeout, the next build resumes at the first step that
is not cached."""

POLL_S = 5.0


@dataclass(frozen=True)
class Build:
    """An image to build at a site; `lock` and `log` are the files of `build_image`."""

    project: Project
    site: str
    image: str
    lock: Path
    log: Path

    @property
    def folder(self) -> Path:
        """The image's folder, with its Containerfile."""
        return image_folder(self.project.path, self.image)

    def plan(self) -> Plan:
        """Return the plan of the build."""
        return Plan.of(self.project.store, self.folder, image_folders(self.project.path))

    @property
    def job_dir(self) -> Path:
        """The folder of the job's script and log, which identifies the job."""
        return self.project.path.absolute() / "logs" / self.site / "builds" / self.image


def build_by_job(build: Build, facts: Site, say: Say) -> ImageLock:
    """Build the image by a job, unless it is cached, and wait for it; Ctrl-C cancels the job.

    Raises:
        ArgosyError: from the build in the job, or if the site cannot run such a job.
    """
    if build.plan().built():
        others = image_folders(build.project.path)
        return build_image(build.project.store, build.folder, build.lock, build.log, others)
    write_script(build, facts)
    scheduler = find_batch_system(facts.scheduler).make_scheduler(POLL_S)
    with _cancelled_with_us(scheduler, say):
        status = follow(scheduler, build.job_dir, say, sys.stderr.buffer)
    return _conclude(build, status)


def write_script(build: Build, facts: Site) -> Path:
    """Write the job's script into its folder, and return its path.

    Raises:
        ArgosyError: with the site's file, if no place on the site suits or its template is not usable.
    """
    try:
        placement = place(facts, REQUEST, None, None)
        system = find_batch_system(facts.scheduler)
        options = system.script_options(JobRequest(facts, placement, REQUEST, build.job_dir))
    except ArgosyError as problem:
        path = f"slurm/{build.site}/site.yaml"
        raise problem.at(path, f"the build of {build.image}") from None
    values = {
        "options": options,
        "site": facts,
        "image": build.image,
        "lock": build.lock.absolute(),
        "log": build.log.absolute(),
        "project": build.project.path.absolute(),
        "store": build.project.store.path,
        "python": sys.executable,
    }
    text = ScriptTemplate(system, build.project.slurm_dir / build.site, TEMPLATE).render(values)
    script = build.job_dir / SCRIPT
    # The scheduler opens its log before the script runs, so the folder must exist.
    (build.job_dir / "logs").mkdir(parents=True, exist_ok=True, mode=0o700)
    write_text(script, text)
    return script


def _conclude(build: Build, status: Status) -> ImageLock:
    """Return the lock of the image built by the job."""
    if status.state is State.REFUSED:
        raise ArgosyError(status.reason)
    log = scheduler_log_of(build.job_dir, status.job_id or "")
    if status.state not in (State.COMPLETED, State.GONE):
        why = _last_error(log) or f"the build's job ended: {status.state.value}"
        raise ArgosyError(f"{why} (job {status.job_id}, {log})")
    lock = build.plan().built()
    if lock is None:
        raise ArgosyError(f"{build.folder}: files changed during the build", "build it again")
    # On a slow file system this node may still see an older lock.
    lock.write(build.lock)
    return lock


def _last_error(log: Path) -> str:
    """Return the last error in the build's log; empty without one."""
    try:
        lines = (
            read_end(log, site_of(log.parents[1]), _LOG_BYTES)[0]
            .decode(errors="replace")
            .splitlines()
        )
    except OSError:
        return ""
    errors = [line for line in lines if line.startswith("error: ")]
    return errors[-1].removeprefix("error: ") if errors else ""


@contextmanager
def _cancelled_with_us(scheduler: Scheduler, say: Say) -> Iterator[None]:
    """Cancel the job on Ctrl-C or SIGTERM; after SIGKILL, the next build attaches to the job."""

    def stop(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except KeyboardInterrupt:
        try:
            scheduler.cancel()
            say("the job is cancelled")
        except SchedulerError as problem:
            say(
                f"cannot cancel the job, which still runs ({problem}); the next build attaches to it"
            )
        raise
    finally:
        signal.signal(signal.SIGTERM, previous)
