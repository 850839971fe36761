"""Where a site's runs are, and what the small files of one run say."""

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from argosy.errors import ArgosyError
from argosy.files import attempt_folder
from argosy.jobs import job_file
from argosy.live.tail import number, object_if_whole
from argosy.reading import entries, folders_in, read_text, site_of

RESULTS = Path("results")
TABLES = "tables"
STUDY = "study.json"
KINDS = ("attempts", "records", "logs")
"""Folders of a run that have one for each incarnation."""
MOST_RANKS = 1 << 20
NAME_BYTES = 4096


def site_folder(site: str | None) -> Path:
    """The folder of a site's results, by name or path; without either, the only one there is.

    Raises:
        ArgosyError: naming the choices.
    """
    sites = site_folders()
    if site is None and len(sites) == 1:
        return sites[0]
    if site:
        for folder in (Path(site), RESULTS / site):
            if folder.is_dir():
                return folder
    names = ", ".join(folder.name for folder in sites)
    if not names:
        raise ArgosyError(f"{RESULTS}: there are no results here; run: snakemake")
    if site is None:
        raise ArgosyError(f"{RESULTS}: name one of its sites: {names}")
    raise ArgosyError(f"{RESULTS / site}: there is no such folder; {RESULTS} has: {names}")


def site_folders() -> list[Path]:
    """The sites that have results; a dry run of another leaves no more than what was asked."""
    # The folder of a site may be a link, to where there is room: whoever has the project made it.
    try:
        names = sorted(each.name for each in entries(RESULTS, RESULTS) if each.is_dir())
    except OSError:
        return []
    return [RESULTS / name for name in names if name[0] != "." and _has_more(RESULTS / name)]


def _has_more(site: Path) -> bool:
    with suppress(OSError):
        return any(each.name != STUDY for each in entries(site, site))
    return False


def run_folders(site: Path) -> Iterator[Path]:
    """The planned runs of a site, by experiment and size, and what stands in the place of one."""
    for experiment in _places(site):
        if experiment.name != TABLES:
            runs = [run for run in _places(experiment) if _may_be_run(run)]
            yield from sorted(runs, key=lambda run: by_number(run.name))


def _places(folder: Path) -> list[Path]:
    """The folders in a folder and the links to some: nothing is read by those, which a view then says."""
    with suppress(OSError):
        names = [each.name for each in entries(folder, folder) if each.is_dir()]
        return [folder / name for name in sorted(names) if name[0] != "."]
    return []


def _may_be_run(folder: Path) -> bool:
    with suppress(OSError):
        (folder / "run.json").lstat()
        return True
    return False


def by_number(name: str) -> list[tuple[str, int]]:
    """A sort key that puts nodes2 before nodes16."""
    return [(text, int(digits or 0)) for text, digits in re.findall(r"(\D*)(\d*)", name)]


@dataclass(frozen=True)
class Started:
    """An execution that claimed the run, or left a log of one."""

    name: str
    unix: float

    @property
    def job_id(self) -> str:
        return self.name.rpartition(".")[0]


@dataclass(frozen=True)
class RunFiles:
    """The files of a run, read when asked for; what is missing or cut off is left out."""

    path: Path
    asked: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> "RunFiles":
        return cls(path, object_if_whole(path / "run.json", site_of(path)) or {})

    @property
    def site(self) -> Path:
        """The folder of the run's site: what is below it is not trusted."""
        return site_of(self.path)

    @property
    def ranks(self) -> int:
        """As asked for; 0 where that says no number of ranks that there can be."""
        nodes, per_node = self.asked.get("nodes"), self.asked.get("ranks_per_node")
        if type(nodes) is not int or type(per_node) is not int or min(nodes, per_node) < 1:
            return 0
        return nodes * per_node if nodes * per_node <= MOST_RANKS else 0

    @cached_property
    def jobs(self) -> list[dict[str, Any]]:
        """The jobs that a driver submitted, the newest last."""
        try:
            return job_file.entries(self.path)
        except (ArgosyError, OSError, ValueError, KeyError):
            return []

    @cached_property
    def incarnations(self) -> list[str]:
        """All executions that left records or logs, in no order of time."""
        names = {each.name for kind in KINDS for each in _folders(self.path / kind, self.site)}
        return sorted((name for name in names if _is_incarnation(name)), key=by_number)

    @cached_property
    def started_last(self) -> Started | None:
        """The execution that the run's results are of: the last one to claim it."""
        try:
            name = read_text(self.path / "incarnation", self.site, NAME_BYTES).strip()
        except OSError:
            name = ""
        if name not in self.incarnations:
            name = max(self.incarnations, key=self._place, default="")
        return Started(name, self.claimed(name)) if name else None

    def incarnation_of(self, job_id: str) -> str | None:
        """The newest execution of a job."""
        mine = [name for name in self.incarnations if name.rpartition(".")[0] == job_id]
        return mine[-1] if mine else None

    def records(self, incarnation: str) -> Path:
        return self.path / "records" / incarnation

    def attempt(self, incarnation: str) -> Path:
        """The folder of what the host wrote of it."""
        return attempt_folder(self.path, incarnation)

    def logs(self, incarnation: str) -> Path:
        return self.path / "logs" / incarnation

    @property
    def slurm_logs(self) -> list[Path]:
        """Where Slurm writes what a job says before its own logs are there."""
        return self._files(self.path / "logs", r"slurm-.*\.log")

    def slurm_log(self, job_id: str) -> Path:
        return self.path / "logs" / f"slurm-{job_id}.log"

    def verdict(self, incarnation: str | None) -> dict[str, Any] | None:
        """What an execution came to, as it said itself."""
        if not incarnation:
            return None
        return object_if_whole(self.attempt(incarnation) / "verdict.json", self.site)

    def claimed(self, incarnation: str) -> float:
        """When an execution began (unix); 0 when it did not say."""
        claim = object_if_whole(self.attempt(incarnation) / "claim.json", self.site) or {}
        return number(claim.get("unix")) or 0.0

    def nodes(self, incarnation: str) -> list[dict[str, Any]]:
        """What the agents of an execution wrote last."""
        paths = self._files(self.records(incarnation), r"node-.*\.json")
        paths.sort(key=lambda path: by_number(path.name))
        return [status for path in paths if (status := object_if_whole(path, self.site))]

    def log_files(self, incarnation: str) -> list[Path]:
        """The logs of an execution, in no order."""
        logs = self.logs(incarnation)
        return [*self._files(logs, r".*\.log"), *self._files(logs / "ranks", r"rank-.*\.log")]

    def _files(self, folder: Path, pattern: str) -> list[Path]:
        """The regular files in a folder whose names fit."""
        with suppress(OSError):
            return [
                folder / each.name
                for each in entries(folder, self.site)
                if re.fullmatch(pattern, each.name) and each.is_file(follow_symlinks=False)
            ]
        return []

    def _place(self, incarnation: str) -> tuple[int, list[tuple[str, int]]]:
        """By the order of submission, as far as that is known, then by name."""
        ids = [str(entry.get("job_id")) for entry in self.jobs]
        job_id = incarnation.rpartition(".")[0]
        return (ids.index(job_id) if job_id in ids else -1), by_number(incarnation)


def _is_incarnation(name: str) -> bool:
    return re.fullmatch(r".+\.\d+", name) is not None


def _folders(path: Path, top: Path) -> list[Path]:
    """The folders in a folder, but for hidden ones."""
    try:
        return [path / name for name in folders_in(path, top)]
    except OSError:
        return []
