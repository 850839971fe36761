import atexit
import hashlib
import os
import re
import shlex
import signal
import subprocess
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path


def say_end(kind, error, trace, other=sys.excepthook):
    """Print a line instead of a traceback if Ctrl-C ends Snakemake while it plans."""
    if issubclass(kind, KeyboardInterrupt):
        print("interrupted", file=sys.stderr)
    else:
        other(kind, error, trace)


# The imports below take a part of the time.
sys.excepthook = say_end

from snakemake.common.configfile import load_configfile
from snakemake.exceptions import IncompleteCheckpointException, WorkflowError
from snakemake.io import checkpoint_target, contains_wildcard

from argosy_common.errors import ArgosyError
from argosy_common.files import apply_umask, read_paths
from argosy_images import ImageLock, check_taken, image_inputs
from argosy.jobs.budget import check_budget
from argosy.jobs.data import check_data
from argosy.jobs.driver import (
    THIS_PROCESS,
    DriverLock,
    HandedOn,
    ToldErrors,
    check_executor,
    check_profile,
    check_until,
    put_commands_on_path,
)
from argosy.jobs.outdated import describe_outdated
from argosy.jobs.planning import Project, Target, plan_runs, runs_of
from argosy.jobs.program_check import check_programs
from argosy.jobs.study_file import (
    check_date,
    find_outdated,
    in_order,
    is_planned,
    study_text,
)
from argosy.monitor.failures import print_failures
from argosy.schedulers import find_batch_system
from argosy.schedulers.script_template import template_files
from argosy.shipped.files import check_import, image_folder, image_folders
from argosy.site.models import read_site
from argosy.study.config import Source, parse_config
from argosy.study.image_names import archive_of
from argosy.study.runs import in_blocks
from argosy.yaml_file import read_yaml
from snakemake_executor_plugin_argosy.notes_folder import provide_notes_folder

PROJECT = Path.cwd()

put_commands_on_path()
provide_notes_folder()
try:
    apply_umask()
except ArgosyError as problem:
    raise WorkflowError(problem.lines)


def read_config(name):
    """Read a configuration file; unlike Snakemake, read_yaml rejects duplicate keys."""
    return (
        read_yaml(Path(name))
        if name.endswith((".yaml", ".yml"))
        else load_configfile(name)
    )


def config_sources():
    """Return the sources of the configuration: the workflow's files, files and keys of the command line.

    The configuration of a module has the importing workflow as its only source.
    """
    if workflow.modifier.skip_configfile:
        return [Source(f"config of the module {workflow.modifier.namespace}", config)]
    asked = [str(path) for path in workflow.config_settings.configfiles]
    own = [str(path) for path in workflow.configfiles if str(path) not in asked]
    files = [Source(name, read_config(name)) for name in [*own, *asked]]
    return [*files, Source("--config", dict(workflow.config_settings.config))]


def rule_path(name):
    """Return a path for rules, relative if it is in the project.

    Raises ArgosyError for braces, which Snakemake would treat as a wildcard.
    """
    path = os.path.relpath(name) if Path(name).is_relative_to(PROJECT) else name
    if contains_wildcard(path):
        raise ArgosyError(
            f"{path}: Snakemake treats braces in a path as a wildcard", "rename it"
        )
    return path


def files_of_image(image, built):
    """Return the files from which an image is built.

    If config.yaml describes the image, the rule writes its Containerfile, which is then not one of them.
    """
    folder = built.folder_of_base if built else image
    files = [str(path) for path in built.inputs(PROJECT)] if built else []
    if folder:
        files += image_inputs(image_folder(PROJECT, folder), image_folders(PROJECT))
    return files


try:
    STUDY = parse_config(config, config_sources())
    SITE = STUDY.site
    if workflow.is_main_process and not workflow.modifier.skip_configfile:
        check_profile(SITE, workflow.config_settings.config, sys.argv[1:])
    FACTS = read_site(Path("slurm") / SITE)
    SYSTEM = find_batch_system(FACTS.scheduler, f"slurm/{SITE}/site.yaml")
    WHERE = Target(SITE, STUDY.hardware, STUDY.queue)
    RUNS = {f"{run.experiment}/{run.run_id}": run for run in runs_of(STUDY, FACTS)}
    # The first run to submit has the highest priority.
    PRIORITIES = {
        f"{run.experiment}/{run.run_id}": priority
        for priority, run in enumerate(reversed(in_blocks(RUNS.values())), start=1)
    }
    IMAGES = sorted({run.image for run in RUNS.values() if run.image})
    TAKEN = STUDY.taken_images
    BUILT = STUDY.built_images
    for name, source in TAKEN.items():
        check_import(PROJECT, name, source)
        check_taken(PROJECT, name, source)
        if archive := archive_of(source):
            rule_path(archive)
    # Report requests that the site cannot satisfy, and invalid Containerfiles, before anything runs.
    LOCKS = Project(PROJECT).locks(IMAGES)
    PLANS = dict(
        zip(
            RUNS,
            plan_runs(Project(PROJECT), WHERE, RUNS.values(), LOCKS, FACTS),
            strict=True,
        )
    )
    IMAGE_FILES = {
        image: [*map(rule_path, files_of_image(image, BUILT.get(image)))]
        for image in IMAGES
        if image not in TAKEN
        and (
            image in BUILT
            or image_folder(PROJECT, image).exists()
            or not ImageLock.path_of(PROJECT, image).is_file()
        )
    }
    check_programs(
        Project(PROJECT).workloads_dir, [plan.run for plan in PLANS.values()]
    )
    OUTDATED = find_outdated(Project(PROJECT), PLANS.values())
    UNFINISHED = [
        plan
        for run, plan in PLANS.items()
        if run in OUTDATED or not os.path.lexists(f"results/{SITE}/{run}/result.json")
    ]
    check_data([PROJECT / "results", Project(PROJECT).store.path], UNFINISHED)
    if STUDY.budget and UNFINISHED and workflow.is_main_process:
        logger.info(check_budget(STUDY.budget, UNFINISHED))
    # `argosy render` reads the plans of this Snakemake, not a file that another one may have written.
    STUDY_TEXT = study_text(
        Project(PROJECT),
        [*PLANS.values()],
        template_files(SYSTEM, Path("slurm") / SITE, "job.sbatch.j2"),
        [name for image in IMAGES for name in IMAGE_FILES.get(image, [])],
    )
    STUDY_FILE = f"results/{SITE}/study.json"
    RUNS_FILE = f"results/{SITE}/runs.txt"
    PREFLIGHT_FILE = f"resources/sites/{SITE}.txt"
    FOLDERS = {run: f"results/{SITE}/{run}" for run in RUNS}
    IS_PLANNED = (
        not OUTDATED
        and os.path.lexists(RUNS_FILE)
        and is_planned(Path(STUDY_FILE), STUDY_TEXT, FOLDERS.values())
    )
    if not IS_PLANNED:
        check_date(Path(RUNS_FILE))
    HANDED_ON = HandedOn.of(STUDY_TEXT)
except ArgosyError as problem:
    raise WorkflowError(problem.lines)

if workflow.is_main_process:
    for line in describe_outdated(OUTDATED):
        logger.info(line)


wildcard_constraints:
    image="[A-Za-z0-9._-]+",
    experiment="[A-Za-z0-9._-]+",
    run="nodes[0-9]+-ranks[0-9]+-repeat[0-9]+",


def study_results():
    """Return the results of all runs of the study."""
    return [f"{folder}/result.json" for folder in FOLDERS.values()]


def lock_of(image):
    """Return the lock of an image."""
    return f"resources/images/{image}/image.lock"


def image_lock(wildcards):
    """Return the lock of the image of a run; empty for native runs without an image."""
    image = RUNS[f"{wildcards.experiment}/{wildcards.run}"].image
    return lock_of(image) if image else []


def image_locks():
    """Return the locks of all images of runs."""
    return [*map(lock_of, IMAGES)]


def native_environments():
    """Return the native environments of images, for native runs."""
    images = {
        run.image for run in RUNS.values() if run.image and run.runtime == "native"
    }
    return expand("resources/images/{image}/native/bin/python3", image=sorted(images))


def packed_images():
    """Return the records of packed images if the site's nodes unpack them."""
    if FACTS.images.stage == "shared":
        return []
    return expand("resources/images/{image}/packed.json", image=IMAGES)


def build_site():
    """Return the option to build images by a job, if the site requires that."""
    return f"--site={shlex.quote(SITE)}" if FACTS.images.build == "job" else ""


def one_of(names):
    """Return a pattern that matches only these names."""
    return "|".join(map(re.escape, names)) or "(?!)"


def taken_image(wildcards):
    """Return the source of an image that is imported without changes."""
    return TAKEN[wildcards.image]


def image_archive(wildcards):
    """Return the archive from which an image is imported; a newer archive is imported again."""
    return archive_of(taken_image(wildcards)) or []


def made_of(wildcards):
    """Return the option that describes an image of config.yaml, which has no own Containerfile."""
    built = BUILT.get(wildcards.image)
    return f"--made-of={shlex.quote(built.described)}" if built else ""


def image_files(wildcards):
    """Return the Containerfile and all files that it copies into the image."""
    return IMAGE_FILES[wildcards.image]


def this_snakemake():
    """Return an input that is newer than all files; it is `ancient` if the runs are already planned."""
    return ancient(THIS_PROCESS) if IS_PLANNED else THIS_PROCESS


@cache
def is_settled():
    """Return whether this call remakes no input of runs, by time stamps and Snakemake's options to force rules."""
    return (
        IS_PLANNED
        and not (workflow.dag_settings.forceall or workflow.dag_settings.forcerun)
        and all(in_order(image_sources(image), [lock_of(image)]) for image in IMAGES)
        and in_order(
            image_locks(), packed_images(), [RUNS_FILE, STUDY_FILE], preflight_file()
        )
        and in_order(native_environments())
    )


def image_sources(image):
    """Return the files from which a rule makes an image."""
    archive = archive_of(TAKEN.get(image, ""))
    return IMAGE_FILES.get(image, [archive] if archive else [])


def preflight_file():
    """Return the output of `preflight`; empty without a queue."""
    return [PREFLIGHT_FILE] if SYSTEM.HAS_QUEUE else []


def script(wildcards):
    """Return the run's batch script; before planning and preflight, the output of the last of both.

    This output is `ancient` for a run whose result stays, so that Snakemake lists only runs that it will start.
    """
    run = f"{wildcards.experiment}/{wildcards.run}"
    if not is_settled():
        last = checkpoints.preflight if SYSTEM.HAS_QUEUE else checkpoints.plan_runs
        try:
            last.get()
        except IncompleteCheckpointException:
            path = checkpoint_target([*preflight_file(), RUNS_FILE][0])
            result = f"{FOLDERS[run]}/result.json"
            stays = run not in OUTDATED and os.path.lexists(result)
            return ancient(path) if stays else path
    return ancient(f"{FOLDERS[run]}/job.sbatch")


def priority(wildcards):
    """Return a run's priority, which determines the order of submission."""
    return PRIORITIES[f"{wildcards.experiment}/{wildcards.run}"]


def costs_file(wildcards):
    """Return the site's file of prices and carbon intensity, if it exists."""
    path = Path("slurm") / SITE / "costs.yaml"
    return str(path) if path.is_file() else []


TOLD_ERRORS = None


def prepare_driver():
    """Reject executors other than Argosy's, and lock the site's runs until this Snakemake ends.

    A workflow that uses this one as a module calls it in its own `onstart`.
    """
    # The lock lives as long as this object.
    global DRIVER_LOCK, TOLD_ERRORS
    try:
        check_executor(workflow.executor_plugin.name)
        check_until(workflow.dag_settings.until)
        DRIVER_LOCK = DriverLock.take(Path(".snakemake"), SITE)
    except ArgosyError as problem:
        raise WorkflowError(problem.lines)
    TOLD_ERRORS = ToldErrors()
    logger.addHandler(TOLD_ERRORS)


def report_failures():
    """Write the report of the available runs, and end Snakemake's output with the failed ones."""
    folder = Path("results") / SITE
    planned = folder / "runs.txt"
    runs = read_paths(planned) if planned.is_file() else []
    # Another Ctrl-C ends the report; the causes are still printed.
    with suppress(KeyboardInterrupt):
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if any((run / "attempts").is_dir() for run in runs):
            costs = [f"--costs={path}" for path in [costs_file(None)] if path]
            command = [
                sys.executable,
                "-E",
                "-m",
                "argosy.cli",
                "report",
                str(folder),
                *costs,
            ]
            # In its own session, so that only this process gets the terminal's Ctrl-C, and ends the report.
            subprocess.run(command, start_new_session=True)
            # Old time stamps, so that the next Snakemake makes the tables again.
            for table in folder.glob("tables/runs.parquet"):
                os.utime(table, (1_000_000_000, 1_000_000_000))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    atexit.register(end_output, folder)


def end_output(folder):
    """Print the failed runs."""
    try:
        print_failures(folder, TOLD_ERRORS)
    except ArgosyError as problem:
        print(f"error: {problem.lines}", file=sys.stderr)
