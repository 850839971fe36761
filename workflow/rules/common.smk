import json
import shlex
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError

from argosy.errors import ArgosyError
from argosy.images.build.recipe import image_inputs
from argosy.images.lockfile import is_imported
from argosy.jobs.planning import Project, Where, plan_runs
from argosy.site.models import read_site
from argosy.study.config import parse_config
from argosy.study.runs import expand as expand_runs

PROJECT = Path.cwd()

# The rules' commands are those of the environment that runs Snakemake, activated or not.
shell.prefix(f"export PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH; ")

SOURCE = Path(workflow.configfiles[-1])

try:
    STUDY = parse_config(config, SOURCE)
    SITE = STUDY.site
    FACTS = read_site(Path("slurm") / SITE)
    WHERE = Where(SITE, STUDY.hardware, STUDY.queue)
    RUNS = {f"{run.experiment}/{run.run_id}": run for run in expand_runs(STUDY)}
    # What the site does not have is told before anything runs, and so are Containerfiles that
    # cannot be built.
    PLANS = dict(
        zip(RUNS, plan_runs(Project(PROJECT), WHERE, RUNS.values(), {}), strict=True)
    )
    IMAGES = sorted({run.image for run in RUNS.values() if run.image})
    IMAGE_FILES = {
        image: image_inputs(Path("containers") / image)
        for image in IMAGES
        if not is_imported(PROJECT, image)
    }
except ArgosyError as problem:
    raise WorkflowError(str(problem))


wildcard_constraints:
    image="[A-Za-z0-9._-]+",
    experiment="[A-Za-z0-9._-]+",
    run="nodes[0-9]+-ranks[0-9]+-repeat[0-9]+",


def image_lock(wildcards):
    """The lock of the image that a run's experiment uses; nothing for a native run."""
    image = RUNS[f"{wildcards.experiment}/{wildcards.run}"].image
    return f"resources/images/{image}/image.lock" if image else []


def image_locks():
    """The locks of all images that runs use."""
    return expand("resources/images/{image}/image.lock", image=IMAGES)


def packed_images():
    """Say that the images are packed, where the site's nodes unpack them."""
    if FACTS.images.stage == "shared":
        return []
    return expand("resources/images/{image}/packed.json", image=IMAGES)


def build_site():
    """The option by which images are built by a job, where the site wants that."""
    return f"--site={shlex.quote(SITE)}" if FACTS.images.build == "job" else ""


def image_files(wildcards):
    """The Containerfile and all files that it copies into the image; none of an imported one."""
    return IMAGE_FILES.get(wildcards.image, [])


def script_templates():
    """The templates of which the site's batch scripts are made."""
    own = Path("slurm") / SITE / "job.sbatch.j2"
    return ["slurm/templates/job.sbatch.j2", *([str(own)] if own.is_file() else [])]


def scheduler(wildcards):
    """Who runs the run's script."""
    return FACTS.scheduler


def hardware(wildcards):
    """The kind of node that the run is measured on."""
    return (
        PLANS[f"{wildcards.experiment}/{wildcards.run}"].placement.hardware_name
        or "this machine"
    )


def preflight(wildcards):
    """What has to be known of all scripts before one is submitted to a cluster."""
    return f"resources/sites/{SITE}.txt" if scheduler(wildcards) == "slurm" else []


def costs_file(wildcards):
    """Prices and carbon of the site, where somebody gave them."""
    path = Path("slurm") / SITE / "costs.yaml"
    return str(path) if path.is_file() else []


def run_description(wildcards):
    """All that decides a run's outcome: when it changes, the run is planned and measured again."""
    return RUNS[f"{wildcards.experiment}/{wildcards.run}"].model_dump_json()
