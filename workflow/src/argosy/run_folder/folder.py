"""Reads a run's folder on request; missing, truncated and invalid files are left out.

An attempt is one execution of the batch script: `<job id>.<restart count>`, plus `-<number>` after a
restart within the job.
"""

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from argosy.run_folder.job_file import read_jobs
from argosy.run_folder.models import (
    Claim,
    DataFile,
    FileModel,
    Job,
    NodeStatus,
    Provenance,
    RunFolderError,
    SeenData,
    Verdict,
    read_spec,
    try_model,
)
from argosy.runtime.contract import layout
from argosy.runtime.contract.run import RunSpec
from argosy_common.reading import entries, folders_in, read_text, site_of

SCRIPT = "job.sbatch"
_NAME_BYTES = 4096


def scheduler_log_of(job_dir: Path, job_id: str) -> Path:
    """Return the scheduler's log of a job that runs in `job_dir`."""
    return job_dir / layout.LOGS / layout.scheduler_log(job_id)


def allocation_folder(site: Path, named: str | None) -> Path | None:
    """Return the folder of a shared job, from its name in run.json or job.json; None if that is invalid."""
    experiment, slash, name = (named or "").partition("/")
    if not slash or "/" in name or {experiment, name} & {"", ".", ".."}:
        return None
    return site / experiment / name


@dataclass(frozen=True)
class RunFolder:
    """The files of a run, in results/<site>/<experiment>/<run>."""

    path: Path

    @property
    def site(self) -> Path:
        """Folder of the run's site; files below it are untrusted."""
        return site_of(self.path)

    @property
    def name(self) -> str:
        """`<site>/<experiment>/<run>`, for messages."""
        return "/".join(self.path.parts[-3:])

    @cached_property
    def spec(self) -> RunSpec:
        """Content of run.json; raises RunFolderError."""
        return read_spec(self.path / layout.RUN, self.site)

    @cached_property
    def jobs(self) -> list[Job]:
        """Jobs submitted for the run, newest last."""
        with suppress(RunFolderError):
            return read_jobs(self.path)
        return []

    def job(self, job_id: str | None) -> Job | None:
        return next((job for job in self.jobs if job.job_id == job_id), None)

    @property
    def result(self) -> Verdict | None:
        """Content of result.json; None before the run has completed."""
        return self._read(layout.RESULT, Verdict)

    @property
    def provenance(self) -> Provenance | None:
        return self._read(layout.PROVENANCE, Provenance)

    # ---- attempts

    @cached_property
    def attempts(self) -> list[str]:
        """All attempts that left a folder, oldest first."""
        names = {name for kind in KINDS for name in self._folders(kind) if is_attempt(name)}
        return in_order(names, [job.job_id for job in self.jobs])

    def attempts_of(self, job_id: str | None) -> list[str]:
        """Return the attempts of a job, oldest first."""
        return [name for name in self.attempts if layout.job_of(name) == job_id]

    def newest_of_start(self, job_id: str, requeues: int) -> str | None:
        """Return the newest attempt of a job since its last requeue."""
        name = f"{job_id}.{requeues}"
        found = [each for each in self.attempts_of(job_id) if layout.first_attempt(each) == name]
        return found[-1] if found else None

    def newest_attempt(self, job_id: str | None) -> str | None:
        found = self.attempts_of(job_id)
        return found[-1] if found else None

    @cached_property
    def last_started(self) -> str | None:
        """The attempt that claimed the run last; the run's results are from it."""
        try:
            name = read_text(self.path / layout.OWNER, self.site, _NAME_BYTES).strip()
        except OSError:
            name = ""
        if name in self.attempts:
            return name
        return self.attempts[-1] if self.attempts else None

    def verdict(self, attempt: str | None) -> Verdict | None:
        return (
            self._read(f"{layout.ATTEMPTS}/{attempt}/{layout.VERDICT}", Verdict)
            if attempt
            else None
        )

    def claim(self, attempt: str) -> Claim | None:
        return self._read(f"{layout.ATTEMPTS}/{attempt}/{layout.CLAIM}", Claim)

    def has_saved(self, attempt: str) -> bool:
        """Return whether an attempt has saved a checkpoint."""
        return any(
            name.startswith("step-") for name in self._folders(f"{layout.CHECKPOINTS}/{attempt}")
        )

    def data(self, attempt: str) -> dict[str, SeenData]:
        """Return the host data found by an attempt, by path in the container."""
        found = self._read(f"{layout.ATTEMPTS}/{attempt}/{layout.DATA}", DataFile)
        return found.data if found else {}

    def claimed_at(self, attempt: str) -> float:
        """Return the start of an attempt in Unix seconds; 0 if unknown."""
        claim = self.claim(attempt)
        return claim.unix if claim else 0.0

    def nodes(self, attempt: str) -> list[NodeStatus]:
        """Return the last status of each agent of an attempt, by node."""
        paths = self._files(self.records(attempt), r"node-.*\.json")
        paths.sort(key=lambda path: by_number(path.name))
        return [node for path in paths if (node := try_model(path, self.site, NodeStatus))]

    # ---- paths

    def attempt_dir(self, attempt: str) -> Path:
        """Return the folder of the host's files of an attempt."""
        return self.path / layout.ATTEMPTS / attempt

    def records(self, attempt: str) -> Path:
        return self.path / layout.RECORDS / attempt

    def logs(self, attempt: str) -> Path:
        return self.path / layout.LOGS / attempt

    def rank_log(self, attempt: str, rank: int) -> Path:
        return self.logs(attempt) / layout.RANK_LOGS / layout.rank_log(rank)

    def log_files(self, attempt: str) -> list[Path]:
        """Return the existing logs of an attempt, unsorted."""
        logs = self.logs(attempt)
        return [
            *self._files(logs, r".*\.log"),
            *self._files(logs / layout.RANK_LOGS, r"(rank|beside)-.*\.log"),
        ]

    def scheduler_log(self, job_id: str) -> Path:
        """Return the scheduler's log of a job; for a shared job it is in that job's folder."""
        job = self.job(job_id)
        shared = allocation_folder(self.site, job.allocation) if job else None
        return scheduler_log_of(shared or self.path, job_id)

    @property
    def scheduler_logs(self) -> list[Path]:
        """Scheduler's logs of all jobs, except shared ones."""
        return self._files(self.path / layout.LOGS, r"scheduler-.+\.log")

    def _read(self, name: str, model: type[FileModel]) -> FileModel | None:
        return try_model(self.path / name, self.site, model)

    def _folders(self, kind: str) -> list[str]:
        with suppress(OSError):
            return folders_in(self.path / kind, self.site, MOST_ATTEMPTS)
        return []

    def _files(self, folder: Path, pattern: str) -> list[Path]:
        """Return the regular files in a folder whose names match."""
        with suppress(OSError):
            return [
                folder / each.name
                for each in entries(folder, self.site)
                if re.fullmatch(pattern, each.name) and each.is_file(follow_symlinks=False)
            ]
        return []


KINDS = (layout.ATTEMPTS, layout.RECORDS, layout.LOGS)
"""Folders of a run with a subfolder for each attempt."""
MOST_ATTEMPTS = 100_000

_NAME = re.compile(r".+\.[0-9]{1,9}(-[0-9]{1,9})?")


def is_attempt(name: str) -> bool:
    """Return whether a folder has the name of an attempt."""
    return _NAME.fullmatch(name) is not None


def by_number(name: str) -> list[tuple[str, int]]:
    """Return a sort key that puts node-2 before node-10."""
    return [(text, int(digits or 0)) for text, digits in re.findall(r"(\D*)(\d*)", name)]


def in_order(names: Iterable[str], job_ids: Sequence[str]) -> list[str]:
    """Sort attempts by their job's submission, then by restart; oldest first.

    Args:
        names: names of attempts.
        job_ids: ids of submitted jobs, oldest first; attempts of other jobs come before them.
    """
    places = {job_id: place for place, job_id in enumerate(job_ids)}

    def place(name: str) -> tuple[int, list[tuple[str, int]]]:
        return places.get(layout.job_of(name), -1), by_number(name)

    return sorted(names, key=place)
