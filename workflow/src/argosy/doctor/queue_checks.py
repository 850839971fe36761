"""Checks that the scheduler accepts the largest jobs of each queue, and the study's runs."""

import re
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from argosy.doctor.findings import Finding, ok, warning, wrong
from argosy.jobs.description import Plan
from argosy.jobs.planning import Project, Target, plan_runs, runs_of
from argosy.run_folder.folder import SCRIPT
from argosy.schedulers.base import Accepted, NotAnsweredError, Say
from argosy.schedulers.batch_system import BatchSystem, LookJob
from argosy.schedulers.job_request import JobRequest
from argosy.site.models import Site, read_site
from argosy.site.placement import Placement, Request
from argosy.study.config import Source, parse_config
from argosy.study.models import Config
from argosy.terminal import plural
from argosy.yaml_file import read_yaml
from argosy_common.errors import ArgosyError, some
from argosy_common.files import write_json, write_text

SMALL_MEMORY = 500
"""MiB requested by a look."""

LOOK_S = 120
MOST_LOOKED_AT = 4
"""Maximum nodes of a look; several nodes reveal an isolated one."""

MOST_NAMES = 5


@dataclass(frozen=True)
class Place:
    """A queue and one kind of its nodes."""

    site: Site
    queue: str
    hardware: str
    folder: Path
    """Folder of its scripts and logs."""

    @property
    def name(self) -> str:
        """Its name in messages."""
        return f"{self.queue}-{self.hardware}"

    @property
    def limit(self) -> int | None:
        """Maximum nodes of a job by the site's file; None if unlimited."""
        limits = self.site.queues[self.queue].limits
        return limits[-1].nodes if limits else None

    def largest(self) -> list[JobRequest]:
        """Return the largest jobs that the site's file allows: one whole node, and the maximum of nodes.

        Two jobs, since some nodes of a queue may be smaller, or have no GPU.
        """
        hardware, queue = self.site.hardware[self.hardware], self.site.queues[self.queue]
        time = (queue.limits[-1].time if queue.limits else None) or LOOK_S
        gpus = 1 if queue.gpus_only else 0
        return [
            self._request(
                1, hardware.cores or 1, hardware.gpus, hardware.memory or SMALL_MEMORY, time
            ),
            self._request(self.limit or 1, 1, gpus, SMALL_MEMORY, time),
        ]

    def look(self, nodes: int) -> JobRequest:
        """Return a small job that inspects nodes."""
        gpus = min(1, self.site.hardware[self.hardware].gpus)
        return self._request(nodes, 1, gpus, SMALL_MEMORY, LOOK_S)

    def _request(self, nodes: int, cpus: int, gpus: int, memory: int, time: int) -> JobRequest:
        hardware, queue = self.site.hardware[self.hardware], self.site.queues[self.queue]
        placement = Placement(self.hardware, hardware, self.queue, queue)
        return JobRequest(
            self.site, placement, Request(nodes, 1, cpus, gpus, memory, time), self.folder
        )


def places_of(site: Site, folder: Path) -> list[Place]:
    """Return each queue with each kind of its nodes."""
    return [
        Place(site, queue, hardware, folder / f"{queue}-{hardware}")
        for queue, entry in site.queues.items()
        for hardware in entry.hardware
    ]


def to_look_at(places: list[Place]) -> Iterator[Place]:
    """Yield the first place of each kind of nodes, since nodes are the same in all queues."""
    seen = set()
    for place in places:
        if place.hardware not in seen:
            seen.add(place.hardware)
            yield place


def alike(found: Sequence[tuple[Place, Finding]]) -> Iterator[Finding]:
    """Yield the findings of all places, merging findings that differ only in names."""
    groups: dict[tuple[str, str], list[Finding]] = {}
    for place, finding in found:
        said = finding.evidence
        for name in (place.name, place.queue, place.hardware):
            said = re.sub(rf"\b{re.escape(name)}\b", "…", said)
        groups.setdefault((finding.verdict, said), []).append(finding)
    for (verdict, _), same in groups.items():
        if verdict == "ok" or len(same) == 1:
            yield from same
            continue
        first = same[0]
        others = some([each.check.removeprefix("queue ") for each in same[1:]], MOST_NAMES)
        yield replace(first, evidence=f"{first.evidence} (the same for {others})")


def check_place(site_file: str, place: Place, system: BatchSystem, say: Say) -> Finding:
    """Check that the scheduler accepts the largest jobs that the site's file allows.

    Raises:
        NotAnsweredError: if it does not answer.
    """
    check = f"queue {place.name}"
    for request in place.largest():
        answer = _ask_scheduler(site_file, place, request, system, say)
        if isinstance(answer, ArgosyError):
            return wrong(check, answer.problem, answer.hint or "change that key")
        if answer.wait:
            remedy = "wait until it is over, ask the site, or use another queue"
            return warning(check, f"its jobs will wait: {answer.wait}", remedy)
    whole, wide = (each.request for each in place.largest())
    cores, nodes = plural(whole.cpus, "core"), plural(wide.nodes, "node")
    gpus = f", {whole.gpus} GPUs" if whole.gpus else ""
    return ok(
        check, f"{system.NAME} accepts {nodes}, and {cores}, {whole.memory}M{gpus} of one node"
    )


def choose_look(site_file: str, place: Place, system: BatchSystem, say: Say) -> LookJob:
    """Return a look at several nodes, to test their network, if the scheduler would start it; else at one.

    Raises:
        NotAnsweredError: if it does not answer.
    """
    most, nodes = min(MOST_LOOKED_AT, place.limit or MOST_LOOKED_AT), 1
    if most > 1:
        answer = _ask_scheduler(site_file, place, place.look(2), system, say)
        nodes = 2 if isinstance(answer, Accepted) and not answer.wait else 1
    options = {**_options(site_file, place.look(nodes), system), "output": "job.log"}
    return LookJob(options, nodes, most if nodes > 1 else 1, place.folder)


def _ask_scheduler(
    site_file: str, place: Place, request: JobRequest, system: BatchSystem, say: Say
) -> Accepted | ArgosyError:
    """Return the scheduler's answer to a job: it is accepted, or refused for a reason.

    Raises:
        NotAnsweredError: if it does not answer.
    """
    try:
        script = _write_script(place.folder, _options(site_file, request, system), system)
        [accepted] = system.check_scripts([script], say)
    except NotAnsweredError:
        raise
    except ArgosyError as problem:
        return problem
    return accepted


def _write_script(folder: Path, options: Mapping[str, str | None], system: BatchSystem) -> Path:
    """Write a script that has only options; return its path."""
    lines = [system.directive(name, value) for name, value in options.items()]
    write_text(folder / SCRIPT, "\n".join(["#!/bin/bash", *lines, "true"]) + "\n")
    return folder / SCRIPT


def _options(site_file: str, request: JobRequest, system: BatchSystem) -> Mapping[str, str | None]:
    """Return the options of a job. Raises ArgosyError, with the site's file."""
    try:
        return system.script_options(request)
    except ArgosyError as problem:
        raise problem.at(site_file) from None


RUNS_CHECK = "runs"
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
"""The study to check without a configuration."""
_MOST_SHOWN = 4


def check_places(project: Path, site: str) -> tuple[Finding, Sequence[Plan]]:
    """Return whether each configured run has a place on the site, and the runs' plans."""
    try:
        study = _study(project, site)
        facts = read_site(project / "slurm" / study.site)
        runs = runs_of(study, facts)
        locks = Project(project).locks({run.image for run in runs if run.image})
        target = Target(site, study.hardware, study.queue)
        plans = plan_runs(Project(project), target, runs, locks, facts)
    except ArgosyError as problem:
        remedy = problem.hint or f"change that key, then check: snakemake --profile slurm/{site} -n"
        return wrong(RUNS_CHECK, problem.problem, remedy), []
    return ok(RUNS_CHECK, _places_in_words(plans)), plans


def check_with_scheduler(
    system: BatchSystem, project: Path, plans: Sequence[Plan], folder: Path, say: Say
) -> Iterator[Finding]:
    """Yield the scheduler's objections to these plans; nothing if it accepts them all.

    Args:
        folder: folder for scripts, in the layout of a project, so that refusals find the keys.

    Raises:
        NotAnsweredError: if the scheduler does not answer.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "slurm").symlink_to(project.absolute() / "slurm")
    scripts = [_write_run(plan, folder, system) for plan in plans]
    try:
        accepted = system.check_scripts(scripts, say)
    except NotAnsweredError:
        raise
    except ArgosyError as problem:
        yield wrong(RUNS_CHECK, problem.problem, problem.hint or "change that key")
        return
    waits = dict.fromkeys(each.wait for each in accepted if each.wait)
    if waits:
        remedy = "name another queue in config.yaml (`queue`), or ask the site"
        yield warning(RUNS_CHECK, f"jobs of {CONFIG} will wait: {'; '.join(waits)}", remedy)


def _study(project: Path, site: str) -> Config:
    """Return the project's configuration for a site. Raises ArgosyError."""
    path = project / CONFIG
    content = read_yaml(path) if path.exists() else A_SMALL_RUN
    if not isinstance(content, dict):
        raise ArgosyError(f"{CONFIG}: has no keys", "config/README.md explains them")
    return parse_config({**content, "site": site}, [Source(CONFIG, content)])


def _write_run(plan: Plan, folder: Path, system: BatchSystem) -> Path:
    """Write a script with a run's options, and its place in run.json; return the script's path."""
    run = folder / "results" / plan.site / plan.run.experiment / plan.run.run_id
    place = {
        "hardware": plan.placement.hardware_name,
        "queue": plan.placement.queue_name,
        "ranks_per_node": plan.run.ranks_per_node,
    }
    write_json(run / "run.json", place)
    return _write_script(run, plan.options, system)


def _places_in_words(plans: Sequence[Plan]) -> str:
    """Describe the number of runs by place."""
    places = Counter(
        f"{plan.placement.hardware_name} by the queue {plan.placement.queue_name}" for plan in plans
    )
    shown = [f"{count} on {place}" for place, count in places.most_common(_MOST_SHOWN)]
    more = [f"{len(places) - _MOST_SHOWN} more places"] if len(places) > _MOST_SHOWN else []
    counted = "1 run has a place" if len(plans) == 1 else f"{len(plans)} runs have a place"
    return f"{CONFIG}: {counted}: {', '.join([*shown, *more])}"
