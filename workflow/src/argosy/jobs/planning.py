"""Writes a run's folder before it runs: run.json, provenance.json and job.sbatch."""

import sys
from dataclasses import dataclass
from pathlib import Path

import argosy
from argosy.errors import ArgosyError
from argosy.files import write_json, write_text
from argosy.images.lockfile import ImageLock
from argosy.images.nvidia import nvml_module
from argosy.images.store import Store
from argosy.jobs.description import Plan, describe_provenance, describe_run
from argosy.jobs.options import batch_options, request_of
from argosy.jobs.render import render_script
from argosy.site.models import read_site
from argosy.site.placement import place
from argosy.study.runs import Run

TEMPLATE = "job.sbatch.j2"


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

    @property
    def workloads_dir(self) -> Path:
        """The training programs, `/workloads` in a container."""
        return (self.path / "containers" / "workloads").absolute()

    def run_dir(self, site: str, run: Run) -> Path:
        """The folder of one run."""
        return self.path / "results" / site / run.experiment / run.run_id


@dataclass(frozen=True)
class Where:
    """The site that a run goes to; `hardware` and `queue` are its entries by name, None: chosen."""

    site: str
    hardware: str | None = None
    queue: str | None = None


def plan_run(project: Project, where: Where, run: Run, lock: ImageLock | None) -> Plan:
    """Find the run's place on the site.

    Raises:
        ArgosyError: naming the file of the site, when it is not usable or nothing on it suits.
    """
    facts = read_site(project.slurm_dir / where.site)
    folder = project.run_dir(where.site, run).absolute()
    try:
        request = request_of(run)
        placement = place(facts, request, where.hardware, where.queue)
        warning = run.checkpoints.warning if run.checkpoints else None
        options = batch_options(facts, placement, request, folder, warning)
    except ArgosyError as problem:
        path = f"slurm/{where.site}/site.yaml"
        raise ArgosyError(f"{path}: {problem} ({run.experiment}/{run.run_id})") from None
    return Plan(where.site, facts, placement, options, run, lock)


def write_run(project: Project, plan: Plan) -> Path:
    """Write what the run needs into its folder, and return the path of its batch script.

    Raises:
        ArgosyError: when the site's template is not usable.
    """
    folder = project.run_dir(plan.site, plan.run).absolute()
    description = describe_run(plan, project.workloads_dir)
    values = {
        "run": description,
        "options": plan.options,
        "site": plan.facts,
        "run_dir": folder,
        "runtime_dir": Path(argosy.__file__).parent / "runtime",
        "nvml": nvml_module() or "",
        "workloads_dir": project.workloads_dir,
        "store": project.store.path,
        "python": sys.executable,
    }
    text = render_script(project.slurm_dir, plan.site, TEMPLATE, values)
    write_json(folder / "run.json", description)
    provenance = describe_provenance(plan, project.path, project.store)
    write_json(folder / "provenance.json", provenance)
    # Slurm opens its log before the script can make a folder for it.
    (folder / "logs").mkdir(exist_ok=True)
    write_text(folder / "job.sbatch", text)
    return folder / "job.sbatch"
