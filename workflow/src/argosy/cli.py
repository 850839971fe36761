"""The command line: thin commands over the rooms, and errors in one line."""

import json
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from pydantic import ValidationError
from rich.console import Console

from argosy.errors import FULL, ArgosyError, explained

app = typer.Typer(
    name="argosy",
    help="One experiment, many clusters: images without root, batch scripts, runs, reports.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
image_app = typer.Typer(help="Build images, look after them, exchange them.", no_args_is_help=True)
app.add_typer(image_app, name="image")

# The rooms are imported where they are used: a command should not wait for libraries it has no use for.


@app.command()
def setup() -> None:
    """Make the container tools available in this project."""
    from argosy.images.store import Store
    from argosy.images.tools import ensure_udocker

    ensure_udocker(Store.of_project(Path.cwd()), _say)


@image_app.command("build")
def image_build(
    name: Annotated[str, typer.Argument(help="A folder of containers/.")],
    lock: Annotated[Path | None, typer.Option(help="Where to write image.lock.")] = None,
    log: Annotated[Path | None, typer.Option(help="File for all that the steps print.")] = None,
    site: Annotated[
        str | None,
        typer.Option(help="A folder of slurm/: build where its site.yaml says, here or by a job."),
    ] = None,
) -> None:
    """Build containers/NAME/Containerfile, as far as it is not cached, and freeze it."""
    from argosy.images.build.builder import build_image
    from argosy.images.store import Store

    lock = lock or Path("resources/images") / name / "image.lock"
    log = log or Path("logs/images") / f"{name}.log"
    if site is not None:
        from argosy.jobs.building import Build, build_by_job
        from argosy.jobs.planning import Project
        from argosy.site.models import read_site

        facts = read_site(Path("slurm") / site)
        if facts.images.build == "job":
            build = Build(Project(Path.cwd()), site, name, lock, log)
            build_by_job(build, facts, _say)
            return
    build_image(Store.of_project(Path.cwd()), Path("containers") / name, lock, log)


@image_app.command("pack")
def image_pack(
    name: Annotated[str, typer.Argument(help="A folder of resources/images/.")],
    lock: Annotated[Path | None, typer.Option(help="Its image.lock.")] = None,
    output: Annotated[
        Path | None, typer.Option(help="Where to note that it is packed (for the workflow).")
    ] = None,
) -> None:
    """Pack a built image into one file of the store, which nodes unpack where the site wants that."""
    from argosy.files import write_json
    from argosy.images.lockfile import lock_path, read_lock
    from argosy.images.packed.packing import pack_image
    from argosy.images.store import Store

    image = read_lock(lock or lock_path(Path.cwd(), name))
    path = pack_image(Store.of_project(Path.cwd()), image, _say)
    if output:
        write_json(output, {"digest": image.digest, "size": path.stat().st_size})


@image_app.command("list")
def image_list() -> None:
    """List the images in the store, and what the cache of build steps takes."""
    from argosy.images.keeping.inventory import read_inventory
    from argosy.images.keeping.tables import of_inventory
    from argosy.images.store import Store

    inventory = read_inventory(Store.of_project(Path.cwd()))
    Console(highlight=False).print(*of_inventory(inventory), sep="\n")


@image_app.command("why")
def image_why(name: Annotated[str, typer.Argument(help="A folder of containers/.")]) -> None:
    """Tell which steps of containers/NAME are cached, and why the others have to run."""
    from argosy.images.build import cache, history
    from argosy.images.build.builder import plan_image
    from argosy.images.build.why import explain
    from argosy.images.keeping.tables import of_findings
    from argosy.images.store import Store

    store = Store.of_project(Path.cwd())
    final = plan_image(store, Path("containers") / name).final
    last = history.read(store, name)
    findings = explain(final, last, lambda key: cache.read_step(store, key) is not None)
    Console(highlight=False).print(*of_findings(name, findings), sep="\n")


@image_app.command("engines")
def image_engines(
    name: Annotated[str, typer.Argument(help="A built image, a folder of resources/images/.")],
) -> None:
    """Measure each engine of containers on this host, and note which one runs here will use.

    The first run on a new kind of host does so by itself.
    """
    from argosy.images.engines import choose_engine
    from argosy.images.keeping.tables import of_trials
    from argosy.images.lockfile import lock_path, read_lock
    from argosy.images.store import Store

    store = Store.of_project(Path.cwd())
    choice = choose_engine(store, store.root(read_lock(lock_path(Path.cwd(), name)).digest))
    Console(highlight=False).print(*of_trials(choice.trials, choice.engine), sep="\n")


@image_app.command("prune")
def image_prune(
    older_than: Annotated[
        str | None, typer.Option(help="What was not used for so long, such as 30d.")
    ] = None,
    keep: Annotated[
        str | None, typer.Option(help="The least recently used, until the rest is so small: 20G.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
) -> None:
    """Remove images and cached steps that no image.lock of the project names.

    Without an option all of them go. Where several projects share a store, or runs of an older image
    are under way, say --older-than.
    """
    from argosy.images.keeping.prune import Limits, prune
    from argosy.images.store import Store

    limits = Limits.parse(older_than, keep)
    prune(Store.of_project(Path.cwd()), Path.cwd(), limits, print, dry_run=dry_run)


@image_app.command("export")
def image_export(
    name: Annotated[str, typer.Argument(help="A folder of resources/images/.")],
    file: Annotated[Path, typer.Argument(help="The archive to write.")],
) -> None:
    """Write a built image as an OCI archive, which podman, docker and skopeo read."""
    from argosy.images.exchange.exporting import export_image
    from argosy.images.lockfile import read_lock
    from argosy.images.store import Store
    from argosy.units import amount

    lock = read_lock(Path("resources/images") / name / "image.lock")
    size = export_image(Store.of_project(Path.cwd()), lock, file)
    print(f"{file}: image {name} {lock.digest[:19]}, {amount(size)}")


@image_app.command("import")
def image_import(
    source: Annotated[
        str,
        typer.Argument(help="An OCI archive or folder, a file of docker save, docker://REFERENCE."),
    ],
    name: Annotated[str, typer.Argument(help="What the project calls the image.")],
) -> None:
    """Take an image of podman, docker, skopeo or of a registry into the store, for runs to use."""
    from argosy.images.exchange.importing import import_from_registry, import_image
    from argosy.images.registry.reference import TRANSPORT, Reference
    from argosy.images.store import Store

    store, project = Store.of_project(Path.cwd()), Path.cwd()
    if source.startswith(TRANSPORT):
        reference = Reference.parse(source)
        lock = import_from_registry(store, project, reference, name, _say)
    else:
        lock = import_image(store, project, Path(source), name)
    print(f"image {name} {lock.digest[:19]}: {len(lock.steps)} layers from {lock.base.reference}")


@app.command("plan-run")
def plan_run(
    description: Annotated[str, typer.Argument(help="The run as JSON, as the workflow gives it.")],
    site: Annotated[str, typer.Option(help="A folder of slurm/.")],
    hardware: Annotated[str | None, typer.Option(help="An entry of the site's hardware.")] = None,
    queue: Annotated[str | None, typer.Option(help="An entry of the site's queues.")] = None,
    lock: Annotated[
        Path | None, typer.Option(help="The image.lock to use; none for a native run.")
    ] = None,
) -> None:
    """Write run.json, provenance.json and job.sbatch of one run (the workflow calls this)."""
    from argosy.images.lockfile import read_lock
    from argosy.jobs import planning
    from argosy.study.runs import Run

    try:
        run = Run.model_validate_json(description)
    except ValidationError as problem:
        raise ArgosyError(f"not a run: {problem.errors()[0]['msg']}") from None
    project = planning.Project(Path.cwd())
    where = planning.Where(site, hardware, queue)
    planning.write_run(
        project, planning.plan_run(project, where, run, read_lock(lock) if lock else None)
    )


@app.command()
def preflight(
    scripts: Annotated[list[Path], typer.Argument(help="Batch scripts, not yet submitted.")],
    output: Annotated[Path, typer.Option(help="Written when Slurm would take them all.")],
) -> None:
    """Ask Slurm whether it would take these scripts, each shape once (the workflow calls this)."""
    from argosy.files import write_text
    from argosy.jobs.schedulers.slurm.preflight import check_scripts

    write_text(output, check_scripts(scripts))


@app.command()
def tables(
    results: Annotated[Path, typer.Argument(help="results/<site>")],
    finished: Annotated[
        list[Path] | None, typer.Argument(help="The result.json of each run to be in the tables.")
    ] = None,
) -> None:
    """Collect the records of runs into Parquet tables in RESULTS/tables."""
    from argosy.results import collect

    runs = [path.parent for path in finished] if finished else None
    collect(results, results / "tables", runs)


@app.command()
def report(results: Annotated[Path, typer.Argument(help="results/<site>")]) -> None:
    """Write report.html, summary.json and summary.csv from the tables in RESULTS/tables."""
    from argosy.report import write_report

    write_report(results)


@app.command()
def summary(results: Annotated[Path, typer.Argument(help="results/<site>")]) -> None:
    """Print the report's main numbers and where the report is."""
    from argosy.report.terminal import print_summary

    path = results / "summary.json"
    if not path.is_file():
        raise ArgosyError(f"{path}: there is no report yet; run: snakemake")
    console = Console(highlight=False)
    print_summary(json.loads(path.read_text(encoding="utf-8")), console)
    console.print(f"Report: {(results / 'report.html').absolute()}", soft_wrap=True)


@app.command()
def status(
    site: Annotated[
        str | None, typer.Argument(help="A folder of results/; needed where there are several.")
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Refresh until all runs have ended.")
    ] = False,
) -> None:
    """Show the runs of a study: which wait and why, which run and how fast, which failed."""
    from argosy.live import folders, study
    from argosy.live import watch as view

    runs = study.Study(folders.site_folder(site))
    (view.watch if watch else view.show)(runs, view.make_console())


@app.command()
def logs(
    run: Annotated[str, typer.Argument(help="EXPERIMENT/RUN, or a part of it that only it has.")],
    rank: Annotated[int | None, typer.Option(help="What this rank printed.")] = None,
    node: Annotated[int | None, typer.Option(help="The log of this node's container.")] = None,
    job: Annotated[bool, typer.Option("--job", help="The job's own log (default).")] = False,
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on until the run has ended.")
    ] = False,
) -> None:
    """Print a log of a run's newest job."""
    from argosy.live.logs import show_log

    show_log(run, rank=rank, node=node, job=job, follow=follow)


def _say(line: str) -> None:
    print(line, file=sys.stderr)


def main() -> None:
    """Run the command line; a user's mistake is one line on standard error and exit status 2."""
    try:
        app()
    except ArgosyError as problem:
        _leave(str(problem))
    except OSError as problem:
        if problem.errno not in FULL:
            raise
        _leave(explained(problem))


def _leave(message: str) -> NoReturn:
    print(f"error: {message}", file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    main()
