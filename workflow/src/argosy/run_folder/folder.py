"""A run's folder, read when asked for; what is missing, cut off or no file of its schema is left out.

An attempt is one execution of the batch script, `<job id>.<restart count>`; the script appends `-<number>`
where it has begun again by itself.
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
    """Return the file of what the scheduler says of a job that runs in `job_dir`."""
    return job_dir / layout.LOGS / layout.scheduler_log(job_id)


def allocation_folder(site: Path, named: str | None) -> Path | None:
    """Return the folder of a shared job below that of the site, as run.json or job.json has named it."""
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
        """The folder of the run's site: what is below it is not trusted."""
        return site_of(self.path)

    @property
    def name(self) -> str:
        """The run with its site, as it is called in messages."""
        return "/".join(self.path.parts[-3:])

    @cached_property
    def spec(self) -> RunSpec:
        """run.json; raises RunFolderError."""
        return read_spec(self.path / layout.RUN, self.site)

    @cached_property
    def jobs(self) -> list[Job]:
        """The jobs that a driver submitted, the newest last."""
        with suppress(RunFolderError):
            return read_jobs(self.path)
        return []

    def job(self, job_id: str | None) -> Job | None:
        """Return what was noted of a job."""
        return next((job for job in self.jobs if job.job_id == job_id), None)

    @property
    def result(self) -> Verdict | None:
        """result.json, of a completed run alone."""
        return self._read(layout.RESULT, Verdict)

    @property
    def provenance(self) -> Provenance | None:
        """provenance.json."""
        return self._read(layout.PROVENANCE, Provenance)

    # ---- attempts

    @cached_property
    def attempts(self) -> list[str]:
        """All attempts that left anything, the oldest first."""
        names = {name for kind in KINDS for name in self._folders(kind) if is_attempt(name)}
        return in_order(names, [job.job_id for job in self.jobs])

    def attempts_of(self, job_id: str | None) -> list[str]:
        """Return the attempts of a job, the oldest first."""
        return [name for name in self.attempts if layout.job_of(name) == job_id]

    def newest_of_start(self, job_id: str, requeues: int) -> str | None:
        """Return the newest attempt of a job since it was started for the last time."""
        name = f"{job_id}.{requeues}"
        found = [each for each in self.attempts_of(job_id) if layout.first_attempt(each) == name]
        return found[-1] if found else None

    def newest_attempt(self, job_id: str | None) -> str | None:
        """Return the newest attempt of a job."""
        found = self.attempts_of(job_id)
        return found[-1] if found else None

    @cached_property
    def last_started(self) -> str | None:
        """The attempt that the run's results are of: the last one to claim it."""
        try:
            name = read_text(self.path / layout.OWNER, self.site, _NAME_BYTES).strip()
        except OSError:
            name = ""
        if name in self.attempts:
            return name
        return self.attempts[-1] if self.attempts else None

    def verdict(self, attempt: str | None) -> Verdict | None:
        """Return what an attempt came to, as it said itself."""
        return (
            self._read(f"{layout.ATTEMPTS}/{attempt}/{layout.VERDICT}", Verdict)
            if attempt
            else None
        )

    def claim(self, attempt: str) -> Claim | None:
        """Return how an attempt began."""
        return self._read(f"{layout.ATTEMPTS}/{attempt}/{layout.CLAIM}", Claim)

    def has_saved(self, attempt: str) -> bool:
        """Return whether an attempt has saved a checkpoint."""
        return any(
            name.startswith("step-") for name in self._folders(f"{layout.CHECKPOINTS}/{attempt}")
        )

    def data(self, attempt: str) -> dict[str, SeenData]:
        """Return the data of the host that an attempt found, by its path in the container."""
        found = self._read(f"{layout.ATTEMPTS}/{attempt}/{layout.DATA}", DataFile)
        return found.data if found else {}

    def claimed_at(self, attempt: str) -> float:
        """Return when an attempt began (unix); 0 when it did not say."""
        claim = self.claim(attempt)
        return claim.unix if claim else 0.0

    def nodes(self, attempt: str) -> list[NodeStatus]:
        """Return what the agents of an attempt wrote last."""
        paths = self._files(self.records(attempt), r"node-.*\.json")
        paths.sort(key=lambda path: by_number(path.name))
        return [node for path in paths if (node := try_model(path, self.site, NodeStatus))]

    # ---- paths

    def attempt_dir(self, attempt: str) -> Path:
        """Return the folder of what the host wrote of an attempt."""
        return self.path / layout.ATTEMPTS / attempt

    def records(self, attempt: str) -> Path:
        """Return the folder of an attempt's records."""
        return self.path / layout.RECORDS / attempt

    def logs(self, attempt: str) -> Path:
        """Return the folder of an attempt's logs."""
        return self.path / layout.LOGS / attempt

    def rank_log(self, attempt: str, rank: int) -> Path:
        """Return the file of what a rank printed."""
        return self.logs(attempt) / layout.RANK_LOGS / layout.rank_log(rank)

    def log_files(self, attempt: str) -> list[Path]:
        """Return the logs of an attempt that there are, in no order."""
        logs = self.logs(attempt)
        return [
            *self._files(logs, r".*\.log"),
            *self._files(logs / layout.RANK_LOGS, r"(rank|beside)-.*\.log"),
        ]

    def scheduler_log(self, job_id: str) -> Path:
        """Return the file of what the scheduler says of a job before its own logs are there."""
        job = self.job(job_id)
        shared = allocation_folder(self.site, job.allocation) if job else None
        return scheduler_log_of(shared or self.path, job_id)

    @property
    def scheduler_logs(self) -> list[Path]:
        """Those of all jobs of the run's own."""
        return self._files(self.path / layout.LOGS, r"scheduler-.+\.log")

    def _read(self, name: str, model: type[FileModel]) -> FileModel | None:
        return try_model(self.path / name, self.site, model)

    def _folders(self, kind: str) -> list[str]:
        with suppress(OSError):
            return folders_in(self.path / kind, self.site, MOST_ATTEMPTS)
        return []

    def _files(self, folder: Path, pattern: str) -> list[Path]:
        """Return the regular files in a folder whose names fit."""
        with suppress(OSError):
            return [
                folder / each.name
                for each in entries(folder, self.site)
                if re.fullmatch(pattern, each.name) and each.is_file(follow_symlinks=False)
            ]
        return []


KINDS = (layout.ATTEMPTS, layout.RECORDS, layout.LOGS)
"""Folders of a run that have one for each attempt."""
MOST_ATTEMPTS = 100_000

_NAME = re.compile(r".+\.[0-9]{1,9}(-[0-9]{1,9})?")


def is_attempt(name: str) -> bool:
    """Return whether a folder's name is that of an attempt."""
    return _NAME.fullmatch(name) is not None


def by_number(name: str) -> list[tuple[str, int]]:
    """Return a sort key that puts node-2 before node-10."""
    return [(text, int(digits or 0)) for text, digits in re.findall(r"(\D*)(\d*)", name)]


def in_order(names: Iterable[str], job_ids: Sequence[str]) -> list[str]:
    """Return attempts, the oldest first: in the order of their jobs' submission, then of their restarts.

    Args:
        names: of the attempts.
        job_ids: of the jobs that were submitted, the oldest first. Other jobs come before them.
    """
    places = {job_id: place for place, job_id in enumerate(job_ids)}

    def place(name: str) -> tuple[int, list[tuple[str, int]]]:
        return places.get(layout.job_of(name), -1), by_number(name)

    return sorted(names, key=place)
