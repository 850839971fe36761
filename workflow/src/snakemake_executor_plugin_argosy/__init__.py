"""Snakemake's executor for Argosy's runs: it submits the rendered batch script itself.

No Snakemake starts on a compute node, all jobs are polled by one look, and a job that a dead driver
left behind is attached to, not submitted again.
"""

import shutil
from collections.abc import AsyncGenerator
from pathlib import Path

from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor
from snakemake_interface_executor_plugins.jobs import JobExecutorInterface
from snakemake_interface_executor_plugins.settings import CommonSettings

from argosy.errors import ArgosyError
from argosy.jobs.schedulers.base import Job, State
from argosy.jobs.schedulers.local import LocalScheduler
from argosy.jobs.verdicts import read_ending

common_settings = CommonSettings(
    non_local_exec=True,
    implies_no_shared_fs=False,
    job_deploy_sources=False,
    pass_default_storage_provider_args=False,
    pass_default_resources_args=False,
    pass_envvar_declarations_to_cmd=False,
    auto_deploy_default_storage_provider=False,
    init_seconds_before_status_checks=1,
)


class Executor(RemoteExecutor):
    """Runs jobs whose rule has an input named `script`: a batch script in its run's folder."""

    def __post_init__(self) -> None:
        """Choose the scheduler."""
        self.scheduler = LocalScheduler()

    def run_job(self, job: JobExecutorInterface) -> None:
        """Submit the job's script."""
        script = Path(job.input.script)
        info = SubmittedJobInfo(job=job)
        try:
            submitted = self.scheduler.submit(script.absolute())
        except (ArgosyError, OSError) as problem:
            self.report_job_error(info, msg=str(problem))
            return
        info.external_jobid = submitted.job_id
        info.aux = {"job": submitted}
        self.report_job_submission(info)

    async def check_active_jobs(
        self, active_jobs: list[SubmittedJobInfo]
    ) -> AsyncGenerator[SubmittedJobInfo, None]:
        """Yield the jobs that still run, and report the endings of the others."""
        states = self.scheduler.poll(_job(info) for info in active_jobs)
        for info in active_jobs:
            if states[_job(info)] is State.RUNNING:
                yield info
                continue
            ending = read_ending(_job(info))
            _publish_log(info.job, ending.logs / "job.log")
            if ending.completed:
                self.report_job_success(info)
            else:
                self.report_job_error(info, msg=ending.message)

    def cancel_jobs(self, active_jobs: list[SubmittedJobInfo]) -> None:
        """End the jobs; called when Snakemake is interrupted."""
        self.scheduler.cancel(_job(info) for info in active_jobs)


def _publish_log(job: JobExecutorInterface, written: Path) -> None:
    """Put the job's own output where the rule says that its log is."""
    for log in job.log:
        Path(log).parent.mkdir(parents=True, exist_ok=True)
        if written.is_file():
            shutil.copyfile(written, log)


def _job(info: SubmittedJobInfo) -> Job:
    job: Job = info.aux["job"]
    return job
