"""Snakemake's executor for Argosy's runs, which submits their rendered batch scripts.

It starts no Snakemake on compute nodes, polls all jobs with one query, and attaches to jobs of an earlier
driver instead of submitting them again.
"""

import asyncio
import re
import signal
import threading
import time
from collections.abc import AsyncGenerator, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor
from snakemake_interface_executor_plugins.jobs import JobExecutorInterface
from snakemake_interface_executor_plugins.settings import CommonSettings, ExecutorSettingsBase

from argosy.jobs.driver import DriverLock, LockedError
from argosy.jobs.image_uses import end_uses, note_uses
from argosy.jobs.verdicts import (
    Ending,
    read_ending,
    settle,
    uncollected,
)
from argosy.run_folder.folder import RunFolder
from argosy.run_folder.job_file import change_job, newest_job
from argosy.schedulers import find_batch_system
from argosy.schedulers.base import Scheduler, SchedulerError, State, Status, describe_queue
from argosy.schedulers.missing_images import WantedImage
from argosy_common.errors import ArgosyError, plain
from argosy_common.files import write_text
from argosy_common.reading import site_of
from snakemake_executor_plugin_argosy.cache_folder import provide_cache_folder

provide_cache_folder()

LATE_VERDICT_S = 30.0
"""Seconds to wait for the verdict of a job on a slow shared file system."""

GLANCE_S = 0.1
"""Seconds between checks for new jobs or the end of all, which need no query of the scheduler."""


@dataclass
class ExecutorSettings(ExecutorSettingsBase):
    """Options of the command line and of profiles: `--argosy-…`."""

    on_interrupt: str = field(
        default="cancel",
        metadata={
            "help": "Effect of Ctrl-C on jobs: `cancel` them, or `leave` them running; the next snakemake "
            "attaches to running jobs.",
            "required": False,
        },
    )
    poll_seconds: float = field(
        default=10.0,
        metadata={
            "help": "Seconds between two queries of the cluster's queue; one query covers all jobs.",
            "type": float,
            "required": False,
        },
    )


common_settings = CommonSettings(
    non_local_exec=True,
    implies_no_shared_fs=False,
    job_deploy_sources=False,
    pass_default_storage_provider_args=False,
    pass_default_resources_args=False,
    pass_envvar_declarations_to_cmd=False,
    auto_deploy_default_storage_provider=False,
    init_seconds_before_status_checks=0,
)


class Executor(RemoteExecutor):
    """Runs jobs whose rule has an input named `script`: a batch script in its run's folder.

    The rule's resource `scheduler` names the scheduler, as in the site's file.
    """

    # A class attribute, since Snakemake starts the thread that reads it before __post_init__.
    _next_look = 0.0

    def __post_init__(self) -> None:
        settings = self.workflow.executor_settings
        if settings.on_interrupt not in ("cancel", "leave"):
            raise WorkflowError(
                f"--argosy-on-interrupt: `cancel` or `leave`, not `{settings.on_interrupt}`"
            )
        self._leave = settings.on_interrupt == "leave"
        self._poll_seconds = settings.poll_seconds
        self._scheduler: Scheduler | None = None
        self._guard = threading.Lock()
        self._ended: dict[Path, Status] = {}
        self._uses: dict[Path, WantedImage] = {}
        self._late_since: dict[Path, float] = {}
        self._told = ""

    def run_jobs(self, jobs: Sequence[JobExecutorInterface]) -> None:
        """Submit all ready jobs, the highest priority first.

        Snakemake's schedulers choose jobs by priority, but return them unordered.
        """
        fresh = []
        jobs = sorted(jobs, key=lambda job: -job.priority)
        for job in jobs:
            self.run_job_pre(job)
            run_dir = _run_dir(job)
            if status := _known_end(run_dir):
                self._ended[run_dir] = status
            else:
                fresh.append(run_dir)
        with self._guard:
            if self._scheduler is None:
                self._scheduler = self._take_scheduler(jobs[0])
            if fresh:
                self._note_uses(fresh)
                began = time.monotonic()
                self._scheduler.submit(fresh)
                self._next_look = began + self._scheduler.pause_s
                # Report a silent scheduler now, not after its next answer.
                self._tell(())
        for job in jobs:
            run_dir = _run_dir(job)
            noted = None if run_dir in self._ended else newest_job(run_dir)
            job_id = noted.job_id if noted else None
            self.report_job_submission(SubmittedJobInfo(job=job, external_jobid=job_id))

    def _note_uses(self, run_dirs: Sequence[Path]) -> None:
        """Mark images in the store as in use, before the submission checks that they exist."""
        try:
            self._uses.update(note_uses(run_dirs))
        except (ArgosyError, OSError) as problem:
            self.logger.warning(f"`argosy image prune` may remove images of these runs: {problem}")

    def _take_scheduler(self, job: JobExecutorInterface) -> Scheduler:
        """Lock the site for this driver, and return its scheduler.

        In a workflow that uses Argosy as a module, no `onstart` may have locked the site before.

        Raises:
            WorkflowError: if another driver has locked the site.
        """
        try:
            self._lock = DriverLock.take(Path(".snakemake"), site_of(_run_dir(job)).name)
        except LockedError as problem:
            raise WorkflowError(problem.lines) from None
        scheduler = find_batch_system(job.resources.scheduler).make_scheduler(self._poll_seconds)
        scheduler.avoids_bad_nodes = bool(job.resources.get("avoid_bad_nodes", 1))
        return scheduler

    def run_job(self, job: JobExecutorInterface) -> None:
        """Submit one job."""
        self.run_jobs([job])

    async def check_active_jobs(
        self, active_jobs: list[SubmittedJobInfo]
    ) -> AsyncGenerator[SubmittedJobInfo, None]:
        """Yield the jobs that still run, and report the ends of the others."""
        if not active_jobs or self._scheduler is None:
            return
        with self._guard:
            statuses = self._scheduler.poll()
            self._next_look = time.monotonic() + self._scheduler.pause_s
        # A job may end before its submission is reported, so keep its end until then.
        self._ended.update({run: each for run, each in statuses.items() if not each.state.active})
        self._tell(statuses.values())
        for info in active_jobs:
            status = self._ended.get(_run_dir(info.job))
            if status is None or self._is_late(_run_dir(info.job), status):
                yield info
            else:
                self._conclude(info, status)

    async def sleep(self) -> None:
        """Wait until the next poll is due.

        Snakemake's own sleep would delay the first job and the end of the workflow.
        """
        while True:
            await asyncio.sleep(GLANCE_S)
            if not self.wait or (self.active_jobs and time.monotonic() >= self._next_look):
                return

    def cancel_jobs(self, active_jobs: list[SubmittedJobInfo]) -> None:
        """Cancel the jobs, or leave them to the next driver; called when Snakemake is interrupted.

        Further Ctrl-C is ignored, since it would leave jobs uncancelled.
        """
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if self._scheduler is None:
            return
        if self._leave:
            self.logger.info("The jobs continue to run; the next snakemake attaches to them.")
        else:
            # A poll that is under way has taken the active jobs.
            runs = [*self._uses, *(_run_dir(info.job) for info in active_jobs)]
            self._cancel(self._scheduler, runs)

    def _cancel(self, scheduler: Scheduler, run_dirs: Sequence[Path]) -> None:
        try:
            scheduler.cancel()
            end_uses(run_dirs, self._uses)
        except SchedulerError as problem:
            self.logger.error(
                f"Cannot cancel the jobs, which continue to run ({problem}). "
                f"`{scheduler.cancel_command} JOB` cancels one; the next snakemake attaches to the "
                "others."
            )

    def shutdown(self) -> None:
        """Shut down without waiting for Snakemake's timers."""
        super().shutdown()
        _end_timers()

    def _is_late(self, run_dir: Path, status: Status) -> bool:
        """Return whether the verdict of a job whose script has ended may still appear on this machine."""
        if status.state not in (State.COMPLETED, State.FAILED):
            return False
        run = RunFolder(run_dir)
        if run.verdict(run.newest_attempt(status.job_id)):
            return False
        since = self._late_since.setdefault(run_dir, time.monotonic())
        return time.monotonic() < since + LATE_VERDICT_S

    def _conclude(self, info: SubmittedJobInfo, status: Status) -> None:
        run_dir = _run_dir(info.job)
        del self._ended[run_dir]
        end_uses([run_dir], self._uses)
        settle(run_dir, status, find_batch_system(info.job.resources.scheduler).LOG_WORDS)
        ending = read_ending(run_dir, status)
        if status.job_id:
            change_job(run_dir, status.job_id, collected=True, ended=status.state.value)
        _write_log(info.job, ending)
        if ending.is_doubtful:
            self.logger.warning(ending.message)
        if ending.completed:
            self.report_job_success(info)
        else:
            self.report_job_error(info, msg=f"{ending.message}. ")

    def _tell(self, statuses: Collection[Status]) -> None:
        """Log the state of the queue if it has changed."""
        trouble = self._scheduler.trouble if self._scheduler else None
        cancel = self._scheduler.cancel_command if self._scheduler else ""
        line = trouble or describe_queue(statuses, cancel)
        # The growing seconds of a silence are not a change.
        news = re.sub(r"\d+ s", "", line)
        if line and news != self._told:
            self._told = news
            self.logger.info(plain(line))


def _known_end(run_dir: Path) -> Status | None:
    """Return the status of a run that needs no job, or cannot have one; else None."""
    try:
        return uncollected(run_dir)
    except (ArgosyError, OSError) as problem:
        return Status(State.REFUSED, reason=str(problem))


def _run_dir(job: JobExecutorInterface) -> Path:
    """Return the folder of the run whose batch script a job submits.

    Raises:
        WorkflowError: if the job is not a run.
    """
    # Use the output: if planning changed nothing, the input `script` may be another file.
    result = job.output.get("result")
    if job.input.get("script") is None or result is None:
        raise WorkflowError(
            f"rule {job.rule.name}: the executor argosy submits only the runs of a study; write "
            "`localrule: True` into the rule"
        )
    return Path(result).absolute().parent


def _write_log(job: JobExecutorInterface, ending: Ending) -> None:
    """Write the ending of a job, and the folder of its logs, into the rule's log."""
    for log in job.log:
        write_text(Path(log), f"{ending.message}\nlogs: {ending.logs}\n")


def _end_timers() -> None:
    """Cancel Snakemake's timers, for which Python would wait at exit.

    For its rate limit, Snakemake schedules jobs again a second after it has started some. Timers with other
    names in later versions of Snakemake are not cancelled.
    """
    for thread in threading.enumerate():
        if isinstance(thread, threading.Timer):
            name = getattr(thread.function, "__qualname__", "")
            if "_schedule_reeval" in name:
                thread.cancel()
