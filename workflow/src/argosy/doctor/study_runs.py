"""Whether the runs that are asked for get to nodes of a site: the question behind all others."""

import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from argosy.doctor.findings import Finding, ok, warning, wrong
from argosy.errors import ArgosyError
from argosy.files import write_json, write_text
from argosy.jobs.description import Plan
from argosy.jobs.planning import Project, Target, plan_runs
from argosy.run_folder.folder import SCRIPT
from argosy.schedulers.base import NotAnsweredError, Say
from argosy.schedulers.batch_system import BatchSystem
from argosy.study.config import Source, parse_config
from argosy.study.models import Config
from argosy.study.runs import expand
from argosy.yaml_file import read_yaml

CHECK = "runs"
CONFIG = "config/config.yaml"
A_SMALL_RUN: Mapping[str, Any] = {
    "experiments": {
        "small": {
            "command": "hostname",
            "launcher": "plain",
            "runtime": "native",
            "scale": {"nodes": [1]},
            "resources": {"time": "10m"},
        }
    }
}
"""What is asked about where there is no configuration."""
_OF_ONE_RUN = ("job-name", "chdir", "output")
_MOST_SHOWN = 4


def check_places(project: Path, site: str) -> tuple[Finding, Sequence[Plan]]:
    """Return whether each run of the configuration has a place on the site, and the plans of those runs."""
    try:
        study = _study(project, site)
        runs = expand(study)
        locks = Project(project).locks({run.image for run in runs if run.image})
        target = Target(site, study.hardware, study.queue)
        plans = plan_runs(Project(project), target, runs, locks)
    except ArgosyError as problem:
        remedy = (
            problem.hint or f"change that key; `snakemake --profile slurm/{site} -n` says the same"
        )
        return wrong(CHECK, problem.problem, remedy), []
    return ok(CHECK, _described(plans)), plans


def check_with_scheduler(
    system: BatchSystem, project: Path, plans: Sequence[Plan], folder: Path, say: Say
) -> Iterator[Finding]:
    """Yield what the scheduler says against jobs of these plans; nothing where it takes them all.

    Args:
        folder: where their scripts are written, in the layout of a project: refusals name keys by it.

    Raises:
        NotAnsweredError: when the scheduler does not answer.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "slurm").symlink_to(project.absolute() / "slurm")
    scripts = [_write_script(system, plan, folder) for plan in _of_each_shape(plans)]
    try:
        accepted = system.check_scripts(scripts, say)
    except NotAnsweredError:
        raise
    except ArgosyError as problem:
        yield wrong(CHECK, problem.problem, problem.hint or "change that key")
        return
    waits = dict.fromkeys(each.wait for each in accepted if each.wait)
    if waits:
        remedy = "name another queue in config.yaml (`queue`), or ask the site"
        yield warning(CHECK, f"jobs of {CONFIG} will wait: {'; '.join(waits)}", remedy)


def _study(project: Path, site: str) -> Config:
    """Return the project's configuration for a site. Raises ArgosyError."""
    path = project / CONFIG
    content = read_yaml(path) if path.exists() else A_SMALL_RUN
    if not isinstance(content, dict):
        raise ArgosyError(f"{CONFIG}: has no keys", "config/README.md explains them")
    return parse_config({**content, "site": site}, [Source(CONFIG, content)])


def _of_each_shape(plans: Sequence[Plan]) -> list[Plan]:
    """Return a plan for each set of options that a scheduler decides by."""
    shapes = {
        tuple(item for item in plan.options.items() if item[0] not in _OF_ONE_RUN): plan
        for plan in reversed(plans)
    }
    return [*reversed(shapes.values())]


def _write_script(system: BatchSystem, plan: Plan, folder: Path) -> Path:
    """Write what the scheduler reads of a run's script, and the run's place; return the script's path."""
    run = folder / "results" / plan.site / plan.run.experiment / plan.run.run_id
    lines = [system.directive(name, value) for name, value in plan.options.items()]
    write_text(run / SCRIPT, "\n".join(["#!/bin/bash", *lines, "true"]) + "\n")
    place = {
        "hardware": plan.placement.hardware_name,
        "queue": plan.placement.queue_name,
        "ranks_per_node": plan.run.ranks_per_node,
    }
    write_json(run / "run.json", place)
    return run / SCRIPT


def _described(plans: Sequence[Plan]) -> str:
    """Return how many runs go where."""
    places = Counter(
        f"{plan.placement.hardware_name} by the queue {plan.placement.queue_name}" for plan in plans
    )
    shown = [f"{count} on {place}" for place, count in places.most_common(_MOST_SHOWN)]
    more = [f"{len(places) - _MOST_SHOWN} more places"] if len(places) > _MOST_SHOWN else []
    counted = "1 run has a place" if len(plans) == 1 else f"{len(plans)} runs have a place"
    return f"{CONFIG}: {counted}: {', '.join([*shown, *more])}"
