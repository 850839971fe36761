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
    """Return the values of a configuration file; Snakemake itself takes the last of equal keys unsaid."""
    return (
        read_yaml(Path(name))
        if name.endswith((".yaml", ".yml"))
        else load_configfile(name)
    )


def config_sources():
    """Return what the configuration was merged from: the workflow's files, those of the command line, its keys.

    A module's configuration that the using workflow gives has that workflow as its only source.
    """
    if workflow.modifier.skip_configfile:
        return [Source(f"config of the module {workflow.modifier.namespace}", config)]
    asked = [str(path) for path in workflow.config_settings.configfiles]
    own = [str(path) for path in workflow.configfiles if str(path) not in asked]
    files = [Source(name, read_config(name)) for name in [*own, *asked]]
    return [*files, Source("--config", dict(workflow.config_settings.config))]


def rule_path(name):
    """Return a path that rules can take: from the project's folder where it lies in it.

    Snakemake would take braces for a wildcard.
    """
    path = os.path.relpath(name) if Path(name).is_relative_to(PROJECT) else name
    if contains_wildcard(path):
        raise ArgosyError(
            f"{path}: Snakemake takes the braces in a path for a wildcard", "rename it"
        )
    return path


def files_of_image(image, built):
    """Return the files that an image is built of.

    The Containerfile of one that config.yaml describes is written by the rule, so it is none of them.
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
    # The first to be submitted has the highest.
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
    # What the site does not have is told before anything runs, and so are Containerfiles that
    # cannot be built.
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
    check_programs(Project(PROJECT).workloads_dir, RUNS.values())
    OUTDATED = find_outdated(Project(PROJECT), PLANS.values())
    UNFINISHED = [
        plan
        for run, plan in PLANS.items()
        if run in OUTDATED or not os.path.lexists(f"results/{SITE}/{run}/result.json")
    ]
    check_data([PROJECT / "results", Project(PROJECT).store.path], UNFINISHED)
    if STUDY.budget and UNFINISHED and workflow.is_main_process:
        logger.info(check_budget(STUDY.budget, UNFINISHED))
    # The rule's program reads the plans of this Snakemake, and no file that another one may have written.
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
    """The lock of the image that a run's experiment uses; nothing for a run of the host's own software."""
    image = RUNS[f"{wildcards.experiment}/{wildcards.run}"].image
    return lock_of(image) if image else []


def image_locks():
    """The locks of all images that runs use."""
    return [*map(lock_of, IMAGES)]


def native_environments():
    """What runs without a container have of their images."""
    images = {
        run.image for run in RUNS.values() if run.image and run.runtime == "native"
    }
    return expand("resources/images/{image}/native/bin/python3", image=sorted(images))


def packed_images():
    """Say that the images are packed, where the site's nodes unpack them."""
    if FACTS.images.stage == "shared":
        return []
    return expand("resources/images/{image}/packed.json", image=IMAGES)


def build_site():
    """The option by which images are built by a job, where the site wants that."""
    return f"--site={shlex.quote(SITE)}" if FACTS.images.build == "job" else ""


def one_of(names):
    """A pattern that fits these names and no other."""
    return "|".join(map(re.escape, names)) or "(?!)"


def taken_image(wildcards):
    """Where an image comes from that is taken as it is."""
    return TAKEN[wildcards.image]


def image_archive(wildcards):
    """The archive that an image is taken from; a newer one is taken anew."""
    return archive_of(taken_image(wildcards)) or []


def made_of(wildcards):
    """The option that describes an image without a Containerfile of its own."""
    built = BUILT.get(wildcards.image)
    return f"--made-of={shlex.quote(built.described)}" if built else ""


def image_files(wildcards):
    """The Containerfile and all files that it copies into the image."""
    return IMAGE_FILES[wildcards.image]


def this_snakemake():
    """Return an input that is newer than all files, and counts where the runs are not planned as asked for."""
    return ancient(THIS_PROCESS) if IS_PLANNED else THIS_PROCESS


@cache
def is_settled():
    """Return whether nothing that runs wait for can be made anew in this call.

    Snakemake decides by times and by what it is forced to do; where those say nothing, neither does it.
    """
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
    """Return the files that an image is made of by a rule."""
    archive = archive_of(TAKEN.get(image, ""))
    return IMAGE_FILES.get(image, [archive] if archive else [])


def preflight_file():
    """Return what says that a cluster takes the scripts; nothing where there is no queue."""
    return [PREFLIGHT_FILE] if SYSTEM.HAS_QUEUE else []


def script(wildcards):
    """Return the run's batch script, or before it is planned, and on a cluster asked about, what says so.

    That is `ancient` where the run has a result that stays. So Snakemake names all runs that it will start.
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
    """A run's place in the order of submission; it decides nothing else."""
    return PRIORITIES[f"{wildcards.experiment}/{wildcards.run}"]


def costs_file(wildcards):
    """Prices and carbon of the site, where somebody gave them."""
    path = Path("slurm") / SITE / "costs.yaml"
    return str(path) if path.is_file() else []


TOLD_ERRORS = None


def prepare_driver():
    """Refuse another executor than Argosy's, and keep other Snakemakes from this site's runs until this one ends.

    A workflow that uses this one as a module calls it in its own `onstart`.
    """
    # The lock is released with the object.
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
    """Write the report of the runs there are, and end Snakemake's output with those that failed."""
    folder = Path("results") / SITE
    planned = folder / "runs.txt"
    runs = read_paths(planned) if planned.is_file() else []
    # Ctrl-C once more ends the report, and the causes are said all the same.
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
            # The terminal's Ctrl-C goes to this process alone, which ends that one.
            subprocess.run(command, start_new_session=True)
            # The next Snakemake makes the tables anew, of the runs that are asked for then.
            for table in folder.glob("tables/runs.parquet"):
                os.utime(table, (1_000_000_000, 1_000_000_000))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    atexit.register(end_output, folder)


def end_output(folder):
    """Print which runs failed."""
    try:
        print_failures(folder, TOLD_ERRORS)
    except ArgosyError as problem:
        print(f"error: {problem.lines}", file=sys.stderr)
