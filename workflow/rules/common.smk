import shlex
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError

from argosy.errors import ArgosyError
from argosy.images.recipe import image_inputs
from argosy.site.models import read_site
from argosy.study.config import parse_config
from argosy.study.runs import expand as expand_runs

PROJECT = Path.cwd()

# The rules' commands are those of the environment that runs Snakemake, activated or not.
shell.prefix(f"export PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH; ")

try:
    STUDY = parse_config(config, Path(workflow.configfiles[-1]))
    SITE = STUDY.site
    read_site(PROJECT / "slurm" / SITE)
    RUNS = {f"{run.experiment}/{run.run_id}": run for run in expand_runs(STUDY)}
    # Containerfiles that cannot be built are told before anything runs.
    IMAGE_FILES = {
        run.image: image_inputs(Path("containers") / run.image) for run in RUNS.values()
    }
except ArgosyError as problem:
    raise WorkflowError(str(problem))


wildcard_constraints:
    image="[A-Za-z0-9._-]+",
    experiment="[A-Za-z0-9._-]+",
    run="nodes[0-9]+-ranks[0-9]+-repeat[0-9]+",


def image_lock(wildcards):
    """The lock of the image that a run's experiment uses."""
    return (
        f"resources/images/{STUDY.experiments[wildcards.experiment].image}/image.lock"
    )


def image_files(wildcards):
    """The Containerfile and all files that it copies into the image."""
    return IMAGE_FILES[wildcards.image]


def script_templates():
    """The templates of which the site's batch scripts are made."""
    own = Path("slurm") / SITE / "job.sbatch.j2"
    return ["slurm/templates/job.sbatch.j2", *([str(own)] if own.is_file() else [])]


def run_description(wildcards):
    """All that decides a run's outcome: when it changes, the run is planned and measured again."""
    return RUNS[f"{wildcards.experiment}/{wildcards.run}"].model_dump_json()
