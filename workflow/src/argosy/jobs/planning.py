"""Writes a run's folder before it runs: run.json, provenance.json and job.sbatch."""

import math
import platform
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import argosy
from argosy.files import write_json, write_text
from argosy.images import tools
from argosy.images.lockfile import ImageLock
from argosy.images.store import Store
from argosy.jobs.launchers import LAUNCHERS
from argosy.jobs.render import render_script
from argosy.site.models import Site, read_site
from argosy.study.runs import Run

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Project:
    """Where things are in a checkout."""

    path: Path

    @property
    def store(self) -> Store:
        """The project's images and tools."""
        return Store.of_project(self.path)

    @property
    def slurm_dir(self) -> Path:
        """The sites and the templates."""
        return self.path / "slurm"

    def run_dir(self, site: str, run: Run) -> Path:
        """The folder of one run."""
        return self.path / "results" / site / run.experiment / run.run_id


def write_run(project: Project, site: str, run: Run, lock: ImageLock) -> Path:
    """Write what the run needs into its folder, and return the path of its batch script.

    Raises:
        ArgosyError: when the site's folder or its template is not usable.
    """
    folder = project.run_dir(site, run)
    facts = read_site(project.slurm_dir / site)
    description = describe_run(site, run, lock)
    values = {
        "run": description,
        "needs": run.needs,
        "minutes": math.ceil(run.needs.time / 60),
        "site": facts,
        "job_name": f"argosy-{run.experiment}-{run.run_id}",
        "run_dir": folder.absolute(),
        "runtime_dir": Path(argosy.__file__).parent / "runtime",
        "workloads_dir": (project.path / "containers" / "workloads").absolute(),
        "store": project.store.path,
        "python": sys.executable,
    }
    text = render_script(project.slurm_dir, site, values)
    write_json(folder / "run.json", description)
    write_json(folder / "provenance.json", describe_provenance(project, site, facts, run, lock))
    write_text(folder / "job.sbatch", text)
    return folder / "job.sbatch"


def describe_run(site: str, run: Run, lock: ImageLock) -> dict[str, Any]:
    """The content of run.json (docs/run-folder.md)."""
    return {
        "schema_version": SCHEMA_VERSION,
        "run_id": run.run_id,
        "experiment": run.experiment,
        "site": site,
        "nodes": run.nodes,
        "ranks_per_node": run.ranks_per_node,
        "repeat": run.repeat,
        "scaling": run.scaling,
        "image": {"name": lock.name, "digest": lock.digest},
        "command": list(run.command),
        "launcher": run.launcher,
        "rank_environment": {
            **LAUNCHERS[run.launcher],
            # Libraries that thread by themselves would otherwise take the whole node for each rank.
            "OMP_NUM_THREADS": str(run.needs.cpus_per_rank),
        },
        "throughput": run.throughput,
        "time_limit_s": run.needs.time,
    }


def describe_provenance(
    project: Project, site: str, facts: Site, run: Run, lock: ImageLock
) -> dict[str, Any]:
    """The content of provenance.json (docs/run-folder.md)."""
    commit = _git(project.path, "rev-parse", "HEAD")
    changes = _git(project.path, "status", "--porcelain")
    return {
        "schema_version": SCHEMA_VERSION,
        "argosy": {
            "version": argosy.__version__,
            "git_commit": commit,
            "git_dirty": None if changes is None else bool(changes),
        },
        "image": {
            "name": lock.name,
            "digest": lock.digest,
            "base": f"{lock.base.reference} ({lock.base.source}, {lock.base.diff_id})",
            "steps": [step.instruction for step in lock.steps],
        },
        "software": {
            "python": platform.python_version(),
            "snakemake": version("snakemake"),
            "udocker": version("udocker"),
            "container runtime": _runtime_version(project.store),
        },
        "experiment": run.model_dump(mode="json", exclude={"nodes", "repeat"}),
        "site": {"name": site, "scheduler": facts.scheduler},
    }


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True)
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _runtime_version(store: Store) -> str:
    runtime = tools.container_runtime(store)
    if not runtime:
        return "udocker's own"
    done = subprocess.run([runtime, "--version"], capture_output=True, text=True)
    return done.stdout.partition("\n")[0] or str(runtime)
