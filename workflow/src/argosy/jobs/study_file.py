"""study.json: the inputs of a site's planned runs. `argosy render` writes it after all scripts.

The workflow compares its content with the current inputs. So it detects another study, a copied or moved
project, another store and another Python without Snakemake's records. Parsing a Snakefile only reads; the
running Snakemake passes its study to `argosy render`.
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
    """Return all inputs of the batch scripts except the images' locks, as JSON.

    Args:
        project: the project, whose paths the scripts contain.
        plans: plans of all runs.
        sources: templates; the text has their digests.
        image_files: sources of images; the text has a digest of their names.
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
    # With indentation, json uses its pure-Python encoder, which is ten times as slow.
    return json.dumps(content) + "\n"


def is_planned(path: Path, text: str, folders: Iterable[Path] = ()) -> bool:
    """Return whether the plan of `text` was written completely.

    Args:
        path: the site's study.json, which planning writes last; its content must equal `text`.
        folders: folders of the runs; each must contain a script and run.json.
    """
    try:
        is_same = reading.read_bytes(path, path.parent) == text.encode()
    except OSError:
        return False
    files = (f"{folder}/{name}" for folder in folders for name in ("run.json", "job.sbatch"))
    return is_same and all(map(os.path.lexists, files))


def in_order(*stages: Iterable[str]) -> bool:
    """Return whether all files exist, and none is newer than a file of a later stage."""
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
    """Reject a file of the last plan with an mtime in the future, which Snakemake would treat as new.

    Raises:
        ArgosyError: with the file.
    """
    if path.is_file() and path.stat().st_mtime > time.time():
        raise ArgosyError(
            f"{path}: its time stamp is in the future, so Snakemake would not plan the runs again",
            f"check the clock of this machine, or run: touch {path.parent}/*/*/job.sbatch {path}",
        )


def find_outdated(project: Project, plans: Iterable[Plan]) -> dict[str, str]:
    """Return why results are outdated, by `EXPERIMENT/RUN`; planning removes them.

    Runs whose image is not locked yet are skipped.
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
    """Read the text that the driver passes on, and return it with its plans and the images' current locks.

    Raises:
        ArgosyError: if `path` has other content, or a lock is damaged.
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
