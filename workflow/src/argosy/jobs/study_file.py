"""study.json: what a site's runs are planned for. `argosy render` writes it, after all scripts.

The workflow compares it with what it was given, by content: another study, a project that was copied or
moved, another store and another Python are all seen, also where Snakemake remembers nothing.
Parsing a Snakefile only reads; the running Snakemake hands its study on to `argosy render`.
"""

import hashlib
import json
import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from argosy.jobs.description import Plan, describe_run
from argosy.jobs.outdated import Programs, why_outdated
from argosy.jobs.planning import Project
from argosy.site.models import Site
from argosy.site.placement import Placement
from argosy.study.runs import Run
from argosy_common import reading
from argosy_common.errors import ArgosyError

SCHEMA_VERSION = 5


def study_text(
    project: Project,
    plans: Sequence[Plan],
    sources: Iterable[Path],
    image_files: Iterable[str] = (),
) -> str:
    """Return everything that the batch scripts are made of but for the images' locks, as JSON.

    Args:
        project: the scripts hold paths of it, of its store and of this Python.
        plans: of all runs.
        sources: the templates; their digests are noted.
        image_files: the files that images are built of; a digest of their names is noted.
    """
    content = {
        "schema_version": SCHEMA_VERSION,
        "site": plans[0].facts.model_dump(mode="json", exclude_unset=True),
        "runs": [
            {
                "run": plan.run.model_dump(mode="json"),
                "hardware": plan.placement.hardware_name,
                "queue": plan.placement.queue_name,
                "options": plan.options,
                "allocation": plan.allocation,
            }
            for plan in plans
        ],
        "project": str(project.path.absolute()),
        "store": str(project.store.path),
        "runtime": str(project.runtime_dir),
        "python": sys.executable,
        "sources": {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in sources},
        "image_files": hashlib.sha256("\n".join(image_files).encode()).hexdigest(),
    }
    # Indented, it would take Python's own encoder, which is ten times as slow.
    return json.dumps(content) + "\n"


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
            f"{path}: its time stamp is in the future, so Snakemake would not plan the runs again",
            f"check the clock of this machine, or run: touch {path.parent}/*/*/job.sbatch {path}",
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


def read_study(path: Path, site: str, project: Project) -> tuple[str, list[Plan]]:
    """Return the text that the driver hands on, and its plans with the images' locks as they are now.

    Raises:
        ArgosyError: when `path` holds something else, or a lock is damaged.
    """
    try:
        text = path.read_text(encoding="utf-8")
        content = reading.json_of(text)
        facts = Site.model_validate(content["site"])
        plans = [_plan(site, facts, planned) for planned in content["runs"]]
    except (OSError, ValueError, LookupError, TypeError) as problem:
        raise ArgosyError(f"{path}: cannot be read ({problem!r})", "run: snakemake") from None
    locks = project.locks({plan.run.image for plan in plans if plan.run.image})
    return text, [replace(plan, lock=locks.get(plan.run.image or "")) for plan in plans]


def _plan(site: str, facts: Site, planned: Mapping[str, Any]) -> Plan:
    hardware, queue = planned["hardware"], planned["queue"]
    return Plan(
        site=site,
        facts=facts,
        placement=Placement(
            hardware,
            None if hardware is None else facts.hardware[hardware],
            queue,
            None if queue is None else facts.queues[queue],
        ),
        options=planned["options"],
        run=Run.model_validate(planned["run"]),
        lock=None,
        allocation=planned["allocation"],
    )
