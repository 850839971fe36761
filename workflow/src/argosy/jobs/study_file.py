"""study.json: what a site's runs are planned for. `argosy render` writes it, after all scripts.

The workflow compares it with what it was given, by content: another study, a project that was copied or
moved, another store and another Python are all seen, also where Snakemake remembers nothing.
Parsing a Snakefile only reads; the running Snakemake hands its study on to `argosy render`.
"""

import hashlib
import os
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from argosy import reading
from argosy.errors import ArgosyError
from argosy.files import json_text
from argosy.jobs.description import Plan, describe_run
from argosy.jobs.outdated import Programs, why_outdated
from argosy.jobs.planning import Project, Target
from argosy.study.runs import Run

SCHEMA_VERSION = 4


def study_text(
    project: Project,
    where: Target,
    plans: Sequence[Plan],
    sources: Iterable[Path],
    image_files: Iterable[str] = (),
) -> str:
    """Return all that the batch scripts are made of, as JSON.

    Args:
        project: the scripts hold paths of it, of its store and of this Python.
        where: the runs go to.
        plans: of all runs.
        sources: the site's file and the templates; their digests are noted.
        image_files: what images are built of; a digest of their names is noted.
    """
    content = {
        "schema_version": SCHEMA_VERSION,
        "hardware": where.hardware,
        "queue": where.queue,
        "runs": [plan.run.model_dump(mode="json") for plan in plans],
        "project": str(project.path.absolute()),
        "store": str(project.store.path),
        "runtime": str(project.runtime_dir),
        "python": sys.executable,
        "sources": {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in sources},
        "image_files": hashlib.sha256("\n".join(image_files).encode()).hexdigest(),
    }
    return json_text(content)


def is_planned(path: Path, text: str, folders: Iterable[Path] = ()) -> bool:
    """Return whether runs are planned as `text` asks for.

    Args:
        path: the site's study.json, which planning writes last; it has to hold `text`.
        folders: of the runs; each has to have what planning writes into it.
    """
    try:
        is_same = reading.read_bytes(path, path.parent) == text.encode()
    except OSError:
        return False
    files = (f"{folder}/{name}" for folder in folders for name in ("run.json", "job.sbatch"))
    return is_same and all(map(os.path.lexists, files))


def in_order(*stages: Iterable[str]) -> bool:
    """Return whether all files are there, and none is newer than one of a later stage."""
    newest = 0.0
    for stage in stages:
        try:
            times = [Path(path).stat().st_mtime for path in stage]
        except OSError:
            return False
        if min(times, default=newest) < newest:
            return False
        newest = max([newest, *times])
    return True


def check_date(path: Path) -> None:
    """Refuse a file of the last plan that is dated in the future: Snakemake would take it for new.

    Raises:
        ArgosyError: naming it.
    """
    if path.is_file() and path.stat().st_mtime > time.time():
        raise ArgosyError(
            f"{path}: it is dated in the future, and Snakemake would not plan the runs again",
            f"look at the clock of this machine, or run: touch {path.parent}/*/*/job.sbatch {path}",
        )


def find_outdated(project: Project, plans: Iterable[Plan]) -> dict[str, str]:
    """Return why results are not of their plans, by `EXPERIMENT/RUN`; planning takes them away.

    A run whose image is not locked yet says nothing about its result.
    """
    programs = Programs(project.workloads_dir)
    causes = {
        f"{plan.run.experiment}/{plan.run.run_id}": why_outdated(
            folder, describe_run(plan), programs
        )
        for plan in plans
        if (plan.lock or not plan.run.image)
        and os.path.lexists((folder := project.run_dir(plan.site, plan.run)) / "result.json")
    }
    return {run: cause for run, cause in causes.items() if cause}


def read_study(path: Path, site: str) -> tuple[str, Target, list[Run]]:
    """Return the text that the driver hands on, where its runs go, and the runs.

    Raises:
        ArgosyError: when `path` holds something else.
    """
    try:
        text = path.read_text(encoding="utf-8")
        content = reading.json_of(text)
        where = Target(site, content["hardware"], content["queue"])
        return text, where, [Run.model_validate(run) for run in content["runs"]]
    except (OSError, ValueError, LookupError, TypeError) as problem:
        raise ArgosyError(f"{path}: cannot be read ({problem!r})", "run: snakemake") from None
