"""Describes a run in run.json and provenance.json (docs/run-folder.md)."""

import hashlib
import json
import platform
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import argosy
from argosy.jobs.launchers import launcher_of, rank_variables, stall_environment
from argosy.runtime.contract.layout import SCHEMA_VERSION
from argosy.runtime.contract.placeholders import as_format
from argosy.runtime.contract.run import RunSpec, run_of
from argosy.site.models import Site
from argosy.site.placement import Placement
from argosy.study.data import Data
from argosy.study.launcher import Beside
from argosy.study.runs import Run
from argosy_common.errors import ArgosyError
from argosy_images import ImageLock, Store, Tools


@dataclass(frozen=True)
class Plan:
    """A run and its place on a site; `lock` is None for a native run."""

    site: str
    facts: Site
    placement: Placement
    options: Mapping[str, str | None]
    """Options of the batch script, by name."""
    run: Run
    lock: ImageLock | None
    allocation: str | None = None
    """Folder of the job that the run shares with others of its repeat, relative to the site's results."""


def spec_digest(plan: Plan) -> str:
    """Return a digest of a run's inputs, which identifies the request behind a result.

    The site's account and templates, the project's path and other points of the study are not inputs.
    """
    spec = {
        "run": plan.run.model_dump(mode="json"),
        "hardware": plan.placement.hardware_name,
        "image": plan.lock and plan.lock.digest,
    }
    return hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()


def describe_run(plan: Plan) -> RunSpec:
    """Return the content of run.json: the run's own fields, and the fields that only the plan determines.

    Raises:
        ArgosyError: if no reader of run.json would accept the run, for example because of its size.
    """
    run, lock, launcher = plan.run, plan.lock, launcher_of(plan.run)
    resources, checkpoints = run.resources, run.checkpoints
    beside = {
        where: [*map(_formats, commands)]
        for where, commands in (launcher.beside or Beside())
        if commands
    }
    content: dict[str, Any] = {
        **run.model_dump(mode="json"),
        "spec": spec_digest(plan),
        "run_id": run.run_id,
        "site": plan.site,
        "hardware": plan.placement.hardware_name,
        "queue": plan.placement.queue_name,
        "image": lock and {"name": lock.name, "digest": lock.digest},
        "rank_environment": _rank_environment(plan),
        "time_limit_s": resources.time,
        "checkpoints": checkpoints
        and {"warning_s": checkpoints.warning, "requeues": checkpoints.requeues},
        "hang_timeout_s": run.hang_timeout,
        "gpus_per_rank": resources.gpus_per_rank or None,
        "allocation": plan.allocation,
        "data": {path: _data(each) for path, each in run.data.items()} or None,
        "per": None if launcher.per == "rank" else launcher.per,
        "start": launcher.start and _formats(launcher.start),
        "beside": beside or None,
        "restarts": (checkpoints and checkpoints.restarts) or None,
        "mpi": plan.facts.mpi if launcher.mpi_tasks else None,
    }
    if resources.bind != "none":
        content |= {"bind": resources.bind, "cpus_per_rank": resources.cpus_per_rank}
    try:
        return run_of(content)
    except ValueError as problem:
        raise ArgosyError(f"experiments.{run.asked_as}: {problem}") from None


def _formats(words: Iterable[str]) -> list[str]:
    return [*map(as_format, words)]


def _data(data: Data) -> dict[str, Any]:
    """Return data as in run.json, where the site's name for it has become a path."""
    return {"path": data.source, **data.model_dump(exclude={"source"})}


def describe_provenance(plan: Plan, tools: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Return the content of provenance.json.

    Args:
        plan: the run's plan.
        tools: result of `describe_tools`.
        seed: seed of the order in which the study's runs are submitted (`study.runs`).
    """
    hardware = plan.placement.hardware
    return {
        "schema_version": SCHEMA_VERSION,
        **tools,
        "image": plan.lock and _describe_image(plan.lock),
        "experiment": plan.run.as_written.model_dump(
            mode="json", exclude={"nodes", "repeat", "least_nodes"}
        ),
        "site": {
            "name": plan.site,
            "scheduler": plan.facts.scheduler,
            "hardware": hardware.model_dump(mode="json") if hardware else None,
            "queue": plan.placement.queue_name,
            "images": plan.facts.images.model_dump(mode="json"),
        },
        "submission": {"order": "random within repeats", "seed": seed},
    }


def describe_tools(project: Path, store: Store) -> dict[str, Any]:
    """Return the part of the provenance that runs planned together share."""
    commit = _git(project, "rev-parse", "HEAD")
    changes = _git(project, "status", "--porcelain")
    return {
        "argosy": {
            "version": argosy.__version__,
            "git_commit": commit,
            "git_dirty": None if changes is None else bool(changes),
        },
        "software": {
            "python": platform.python_version(),
            "snakemake": version("snakemake"),
            "udocker": version("udocker"),
            **_runc_version(store),
        },
    }


def _rank_environment(plan: Plan) -> dict[str, str]:
    """Return the variables of the ranks as format strings, with braces of plain text doubled."""
    variables = {
        **(stall_environment(plan.run.hang_timeout) if plan.run.launcher == "horovod" else {}),
        **_plain(plan.facts.environment),
        **rank_variables(plan.run),
        # Otherwise libraries with threads would use the whole node for each rank.
        "OMP_NUM_THREADS": str(plan.run.resources.cpus_per_rank),
    }
    if plan.run.resources.bind != "none":
        # The node's agent sets it to the number of the rank's cores.
        del variables["OMP_NUM_THREADS"]
    return {**variables, **_plain(plan.run.environment)}


def _plain(texts: Mapping[str, str]) -> dict[str, str]:
    return {name: text.replace("{", "{{").replace("}", "}}") for name, text in texts.items()}


def _describe_image(lock: ImageLock) -> dict[str, Any]:
    return {
        "name": lock.name,
        "digest": lock.digest,
        "base": f"{lock.base.reference} ({lock.base.source}, {lock.base.diff_id})",
        "steps": [step.instruction for step in lock.steps],
    }


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True)
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _runc_version(store: Store) -> dict[str, str]:
    """Return the version of the store's or this host's runc; nodes may choose another engine."""
    runtime = Tools(store).runtime()
    if not runtime:
        return {}
    done = subprocess.run([runtime, "--version"], capture_output=True, text=True)
    return {"runc": done.stdout.partition("\n")[0] or str(runtime)}
