"""Plans the runs of a study and writes their folders: run.json, provenance.json and job.sbatch.

With `resources.same_allocation` the runs of one repeat share a job. Their sizes then run on the same nodes,
one just after the other, so that differences between nodes and hours do not affect comparisons.
"""

import os
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import argosy
from argosy.jobs.data import with_paths
from argosy.jobs.description import (
    Plan,
    describe_provenance,
    describe_run,
    describe_tools,
)
from argosy.jobs.launchers import launcher_of, rank_variables, with_launchers
from argosy.jobs.outdated import Programs, why_outdated
from argosy.run_folder.folder import RunFolder
from argosy.run_folder.models import RunFolderError
from argosy.runtime.contract.layout import OUTPUT
from argosy.runtime.contract.run import RunSpec
from argosy.schedulers import find_batch_system
from argosy.schedulers.base import BETWEEN_RUNS_S
from argosy.schedulers.job_request import JobRequest
from argosy.schedulers.script_template import ScriptTemplate
from argosy.shipped.files import workloads_folder
from argosy.site.models import Site, read_site
from argosy.site.placement import Request, gpus_of_a_node, place
from argosy.study.models import Config
from argosy.study.runs import Run, expand, seed_of
from argosy.study.shell_words import remedy, unfilled
from argosy.study.sizes import Resources
from argosy_common.errors import ArgosyError
from argosy_common.files import write_json, write_json_if_changed, write_text
from argosy_images import ImageLock, Store, nvml_module


def allocation_of(run: Run, site: Site) -> str | None:
    """Return the folder of the run's shared job, relative to the site's results; None for its own job.

    An experiment shares jobs with its variants and its native runs, since the report compares them.

    Raises:
        ArgosyError: if the site does not support shared jobs.
    """
    if not run.resources.same_allocation or not find_batch_system(site.scheduler).SHARES_JOBS:
        return None
    experiment = run.variant.of if run.variant else run.native_of or run.experiment
    if not site.same_allocation:
        raise ArgosyError(
            "same_allocation: false: a job of this site can contain only one run",
            f"remove experiments.{run.asked_as}.resources.same_allocation",
        )
    return f"{experiment}/allocation-repeat{run.repeat}"


def together(asked: Iterable[tuple[str | None, Request]]) -> dict[str, Request]:
    """Return the request of each shared job: the nodes of its largest run, the total time.

    Args:
        asked: for each run, the folder of its shared job, or None, and its request.
    """
    shared: defaultdict[str, list[Request]] = defaultdict(list)
    for allocation, request in asked:
        if allocation:
            shared[allocation].append(request)
    return {
        allocation: replace(
            max(requests, key=lambda each: (each.nodes, each.ranks_per_node)),
            time=sum(each.time + BETWEEN_RUNS_S for each in requests),
        )
        for allocation, requests in shared.items()
    }


TEMPLATE = "job.sbatch.j2"


@dataclass(frozen=True)
class Project:
    """Paths in a project."""

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
        return workloads_folder(self.path)

    @property
    def runtime_dir(self) -> Path:
        """The programs of compute nodes, `/argosy` in a container."""
        return Path(argosy.__file__).parent / "runtime"

    @property
    def image_start(self) -> Path:
        """The program that starts a container on a node."""
        return Path(argosy.__file__).parents[1] / "argosy_images" / "start.py"

    def locks(self, images: Iterable[str]) -> dict[str, ImageLock]:
        """Read the existing locks of images, by name.

        Raises:
            ArgosyError: if one is damaged.
        """
        paths = {image: ImageLock.path_of(self.path, image) for image in images}
        return {image: ImageLock.read(path) for image, path in paths.items() if path.is_file()}

    def run_dir(self, site: str, run: Run) -> Path:
        """Return the folder of one run."""
        return self.path / "results" / site / run.experiment / run.run_id


@dataclass(frozen=True)
class Target:
    """The site of runs; `hardware` and `queue` name its entries; None: chosen by the placement."""

    site: str
    hardware: str | None = None
    queue: str | None = None


def plan_runs(
    project: Project,
    where: Target,
    runs: Iterable[Run],
    locks: Mapping[str, ImageLock],
    facts: Site | None = None,
) -> list[Plan]:
    """Plan each run's place on the site.

    Args:
        project: the project.
        where: the target of the runs.
        runs: the study's runs.
        locks: existing locks of images, by name.
        facts: the site's file, if the caller has read it.

    Raises:
        ArgosyError: with the site's file, if it is not usable or no place suits, or with the wrong key of
            an experiment.
    """
    facts = facts or read_site(project.slurm_dir / where.site)
    for name, value in facts.environment.items():
        if found := unfilled([value]):
            key = f"slurm/{where.site}/site.yaml: environment.{name}"
            raise ArgosyError(f"{key}: {found}: nothing fills this in", remedy(found))
    runs = with_launchers(with_paths(runs, project.slurm_dir / where.site), project.path)
    try:
        shared = together((allocation_of(run, facts), request_of(run)) for run in runs)
    except ArgosyError as problem:
        raise problem.at(f"slurm/{where.site}/site.yaml") from None
    planner = _Planner(project, where, facts, shared)
    return [planner.plan(run, locks.get(run.image) if run.image else None) for run in runs]


@dataclass(frozen=True)
class _Planner:
    """Plans the runs of a study; `shared` has the requests of shared jobs."""

    project: Project
    where: Target
    facts: Site
    shared: Mapping[str, Request]

    def plan(self, run: Run, lock: ImageLock | None) -> Plan:
        """Plan a run's place; raises as `plan_runs`."""
        _check_environment(run)
        _check_bind(run)
        _check_nodes_are_used(run)
        _check_mpi(run, self.where.site, self.facts)
        _check_outputs(run, self.project.workloads_dir)
        where, facts = self.where, self.facts
        folder = self.project.run_dir(where.site, run).absolute()
        allocation = allocation_of(run, facts)
        request = request_of(run)
        try:
            # Runs that share a job have the job's place.
            whole = self.shared[allocation] if allocation else request
            placement = place(facts, whole, where.hardware, where.queue)
            warning = run.checkpoints.warning if run.checkpoints else None
            job = JobRequest(
                facts, placement, request, folder, warning, run.least_nodes is not None
            )
            options = find_batch_system(facts.scheduler).script_options(job)
        except ArgosyError as problem:
            path = f"slurm/{where.site}/site.yaml"
            who = f"{run.experiment}/{run.run_id}"
            if allocation:
                who += f", in one job with all of repeat {run.repeat}: resources.same_allocation"
            raise problem.at(path, who) from None
        return Plan(where.site, facts, placement, options, run, lock, allocation)


def runs_of(study: Config, site: Site) -> list[Run]:
    """Expand a study into runs (`argosy.study.runs.expand`), with the variables and GPUs of its site.

    Raises:
        ArgosyError: as `expand`, or if the site lacks the study's hardware or queue.
    """

    def gpus(resources: Resources) -> int:
        rank = Request(1, 1, resources.cpus_per_rank, 1, resources.memory_per_rank, resources.time)
        try:
            return gpus_of_a_node(site, rank, study.hardware, study.queue)
        except ArgosyError as problem:
            raise problem.at(f"slurm/{study.site}/site.yaml") from None

    return expand(study, site.variables, gpus)


def request_of(run: Run) -> Request:
    """Return a run's request: its nodes, its time, and the resources of each node."""
    resources, ranks = run.resources, run.ranks_per_node
    return Request(
        nodes=run.nodes,
        ranks_per_node=ranks,
        cpus=resources.cpus_per_rank * ranks,
        gpus=resources.gpus_per_rank * ranks,
        memory=resources.memory_per_rank * ranks,
        time=resources.time,
    )


def _check_environment(run: Run) -> None:
    for name in sorted(run.environment.keys() & rank_variables(run).keys()):
        raise ArgosyError(
            f"experiments.{run.asked_as}.environment.{name}: Argosy sets it for each rank",
            "leave it out",
        )


def _check_bind(run: Run) -> None:
    """Reject `bind` if the program starts the ranks: Argosy binds only ranks that it starts."""
    if run.resources.bind != "none" and launcher_of(run).per != "rank":
        raise ArgosyError(
            f"experiments.{run.asked_as}.resources.bind: {run.launcher} does not start each rank",
            "remove it, or choose a launcher that does, such as torch",
        )


def _check_nodes_are_used(run: Run) -> None:
    """Reject a launcher that starts nothing on the nodes besides the head."""
    launcher = launcher_of(run)
    if run.nodes > 1 and launcher.per == "job" and not (launcher.beside and launcher.beside.each):
        raise ArgosyError(
            f"experiments.{run.asked_as}.launcher: {run.launcher} starts its command on the head alone; "
            f"the other nodes of {run.nodes} would be idle",
            f"add commands to beside.each in launchers/{run.launcher}.yaml, or write `per: node` there",
        )


def _check_mpi(run: Run, site: str, facts: Site) -> None:
    """Reject a launcher that needs the scheduler's MPI tasks on a site without a type of MPI."""
    if launcher_of(run).mpi_tasks and facts.mpi is None:
        path = f"slurm/{site}/site.yaml"
        raise ArgosyError(
            f"experiments.{run.asked_as}.launcher: {run.launcher} needs Slurm and `mpi` in {path}, "
            f"which has `scheduler: {facts.scheduler}` and no `mpi`",
            "write a type from `srun --mpi=list` there, such as `mpi: pmi2`; or choose the launcher "
            "`mpi`, for an MPI in the image",
        )


def _check_outputs(run: Run, workloads: Path) -> None:
    """Reject a folder below /workloads that the project lacks, since it cannot be a mount point."""
    for path in run.outputs or ():
        name = path.removeprefix("/workloads/")
        if name != path and not (workloads / name).is_dir():
            raise ArgosyError(
                f"experiments.{run.asked_as}.outputs: {path}: the project has no folder {name}",
                "create it, or start the program by a relative path and make this path relative as well",
            )


def write_runs(project: Project, plans: Sequence[Plan]) -> list[Path]:
    """Write the files of each run into its folder, and return the paths of the batch scripts.

    Outdated results are removed, but their records stay: `result.json` always matches the plan beside it.
    The provenance is rewritten only without a result.

    Raises:
        ArgosyError: if the site's template is not usable, or an image has no lock.
    """
    for plan in plans:
        if plan.run.image and not plan.lock:
            raise ArgosyError(
                f"{plan.run.experiment}: the image {plan.run.image} has no image.lock"
            )
    project.store.uses.note_project(project.path)
    tools = describe_tools(project.path, project.store)
    seed = seed_of(plan.run for plan in plans)
    systems = {plan.site: find_batch_system(plan.facts.scheduler) for plan in plans}
    templates = {
        site: ScriptTemplate(system, project.slurm_dir / site, TEMPLATE)
        for site, system in systems.items()
    }
    programs = Programs(project.workloads_dir)
    return [
        _write_run(project, plan, templates[plan.site], tools, seed=seed, programs=programs)
        for plan in plans
    ]


def _write_run(
    project: Project,
    plan: Plan,
    template: ScriptTemplate,
    tools: Mapping[str, Any],
    *,
    seed: int,
    programs: Programs,
) -> Path:
    folder = project.run_dir(plan.site, plan.run).absolute()
    description, lock = describe_run(plan), plan.lock
    text = template.render(
        {
            "run": description,
            "options": plan.options,
            "site": plan.facts,
            "run_dir": folder,
            "allocation_dir": plan.allocation and folder.parents[1] / plan.allocation,
            "runtime_dir": project.runtime_dir,
            "native_dir": lock and ImageLock.native_dir(project.path, lock.name),
            "nvml": nvml_module() or "",
            "workloads_dir": project.workloads_dir,
            "store": project.store.path,
            "python": sys.executable,
            "image_start": project.image_start,
        }
    )
    if why_outdated(folder, description, programs):
        (folder / "result.json").unlink()
        _set_output_aside(folder)
    elif _is_of_another_plan(folder, description):
        _set_output_aside(folder)
    is_new = write_json_if_changed(folder / "run.json", description.content())
    if is_new or not (folder / "result.json").is_file():
        write_json(folder / "provenance.json", describe_provenance(plan, tools, seed))
    # The scheduler opens its log before the script runs, so the folder must exist.
    (folder / "logs").mkdir(exist_ok=True)
    write_text(folder / "job.sbatch", text)
    return folder / "job.sbatch"


def _is_of_another_plan(folder: Path, spec: RunSpec) -> bool:
    """Return whether run.json has another plan than `spec`."""
    try:
        return RunFolder(folder).spec.spec != spec.spec
    except (OSError, RunFolderError):
        return False


def _set_output_aside(folder: Path) -> None:
    """Rename the program's output of another plan, so that the program does not resume from it."""
    output = folder / OUTPUT
    try:
        output.rmdir()
    except FileNotFoundError:
        return
    except OSError:
        names = (folder / f"{OUTPUT}-{number}" for number in count(1))
        output.rename(next(path for path in names if not os.path.lexists(path)))
