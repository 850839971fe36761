"""job.json: the jobs submitted for a run, so that a later driver finds them."""

import hashlib
from pathlib import Path
from typing import Any

from argosy.run_folder.models import Job, JobFile, read_model
from argosy.runtime.contract import layout
from argosy_common.files import write_json
from argosy_common.reading import open_regular, site_of


def read_jobs(run_dir: Path) -> list[Job]:
    """Return the jobs of a run, newest last.

    Raises:
        RunFolderError: if the file is unreadable or has another schema version.
    """
    path = run_dir / layout.JOBS
    if not path.is_symlink() and not path.exists():
        return []
    return read_model(path, site_of(run_dir), JobFile).jobs


def newest_job(run_dir: Path) -> Job | None:
    """Return the job submitted last; raises as `read_jobs`."""
    found = read_jobs(run_dir)
    return found[-1] if found else None


def add_job(run_dir: Path, job: Job) -> None:
    _write(run_dir, [*read_jobs(run_dir), job])


def change_job(run_dir: Path, job_id: str, **changes: Any) -> None:
    """Update the record of a submitted job; ignore an unknown job."""
    found = read_jobs(run_dir)
    if any(job.job_id == job_id for job in found):
        _write(
            run_dir,
            [job.model_copy(update=changes) if job.job_id == job_id else job for job in found],
        )


def script_digest(script: Path) -> str:
    """Return the SHA-256 of a job's script, to detect a changed script."""
    with open_regular(script, site_of(script.parent)) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write(run_dir: Path, jobs: list[Job]) -> None:
    noted = [job.model_dump(mode="json", exclude_defaults=True) for job in jobs]
    write_json(run_dir / layout.JOBS, {"schema_version": layout.SCHEMA_VERSION, "jobs": noted})
