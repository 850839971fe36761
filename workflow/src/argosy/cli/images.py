"""argosy image …: what becomes of images."""

from pathlib import Path
from typing import Annotated

import typer

from argosy.cli.output import say, show

images = typer.Typer(help="Build images, look after them, exchange them.", no_args_is_help=True)


@images.command("build")
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
    from argosy.images.builder.builder import build_image
    from argosy.images.store.store import Store

    lock = lock or Path("resources/images") / name / "image.lock"
    log = log or Path("logs/images") / f"{name}.log"
    if site is not None:
        from argosy.jobs.building import Build, build_by_job
        from argosy.jobs.planning import Project
        from argosy.site.models import read_site

        facts = read_site(Path("slurm") / site)
        if facts.images.build == "job":
            build = Build(Project(Path.cwd()), site, name, lock, log)
            build_by_job(build, facts, say)
            return
    build_image(Store.of_project(Path.cwd()), Path("containers") / name, lock, log)


@images.command("pack")
def image_pack(
    name: Annotated[str, typer.Argument(help="A folder of resources/images/.")],
    lock: Annotated[Path | None, typer.Option(help="Its image.lock.")] = None,
    output: Annotated[
        Path | None, typer.Option(help="Where to note that it is packed (for the workflow).")
    ] = None,
) -> None:
    """Pack a built image into one file of the store, which nodes unpack where the site wants that."""
    from argosy.files import write_json
    from argosy.images.archive.packing import pack_image
    from argosy.images.store.lockfile import lock_path, read_lock
    from argosy.images.store.store import Store

    image = read_lock(lock or lock_path(Path.cwd(), name))
    path = pack_image(Store.of_project(Path.cwd()), image, say)
    if output:
        write_json(output, {"digest": image.digest, "size": path.stat().st_size})


@images.command("native")
def image_native(
    name: Annotated[str, typer.Argument(help="A folder of resources/images/.")],
    lock: Annotated[Path | None, typer.Option(help="Its image.lock.")] = None,
    folder: Annotated[
        Path | None, typer.Option(help="Where to make it; left out: in resources/images/NAME.")
    ] = None,
) -> None:
    """Make a folder with a built image's Python and packages, for use without a container."""
    from argosy.images.native.environment import make_environment
    from argosy.images.store.lockfile import lock_path, native_dir, read_lock
    from argosy.images.store.store import Store

    lock = lock or lock_path(Path.cwd(), name)
    store = Store.of_project(Path.cwd())
    show(str(make_environment(store, read_lock(lock), folder or native_dir(Path.cwd(), name))))


@images.command("shell")
def image_shell(
    name: Annotated[str, typer.Argument(help="A folder of resources/images/.")],
    command: Annotated[
        list[str] | None, typer.Argument(help="Another program than a shell, after `--`.")
    ] = None,
) -> None:
    """Open a shell in a built image, to look around as its programs see it."""
    from argosy.images.shell import look_inside
    from argosy.images.store.store import Store

    store = Store.of_project(Path.cwd())
    raise typer.Exit(look_inside(store, Path.cwd(), name, command or [], say))


@images.command("list")
def image_list() -> None:
    """List the images in the store, and what the cache of build steps takes."""
    from argosy.images.gc.inventory import read_inventory
    from argosy.images.gc.tables import of_inventory
    from argosy.images.store.store import Store

    inventory = read_inventory(Store.of_project(Path.cwd()))
    # A line for each image, so that other programs can read it.
    show(*of_inventory(inventory), piped_width=200)


@images.command("why")
def image_why(name: Annotated[str, typer.Argument(help="A folder of containers/.")]) -> None:
    """Tell which steps of containers/NAME are cached, and why the others have to run."""
    from argosy.images.builder import cache, history
    from argosy.images.builder.builder import plan_image
    from argosy.images.builder.explain import explain
    from argosy.images.gc.tables import of_findings
    from argosy.images.store.store import Store

    store = Store.of_project(Path.cwd())
    final = plan_image(store, Path("containers") / name).final
    last = history.read(store, name)
    findings = explain(final, last, lambda key: cache.read_step(store, key) is not None)
    show(*of_findings(name, findings))


@images.command("engines")
def image_engines(
    name: Annotated[str | None, typer.Argument(hidden=True)] = None,
) -> None:
    """Measure each engine of containers on this host, and note which one runs here will use.

    The first run on a new kind of host does so by itself. Engines are tried by the host's own shell, so
    no image is needed; a name that is given, as earlier versions wanted one, changes nothing.
    """
    from argosy.images.engines.choice import caution, choose_engine
    from argosy.images.gc.tables import of_trials
    from argosy.images.store.store import Store

    store = Store.of_project(Path.cwd())
    choice = choose_engine(store, every=True)
    show(*of_trials(choice.trials, choice.engine))
    if weakness := caution(choice.engine):
        say(weakness)
    if not store.is_writable:
        say(f"not noted, since {store.path} cannot be written to: every run here measures anew")


@images.command("prune")
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
    from argosy.images.gc.prune import Limits, prune
    from argosy.images.store.store import Store

    limits = Limits.parse(older_than, keep)
    prune(Store.of_project(Path.cwd()), Path.cwd(), limits, print, dry_run=dry_run)


@images.command("export")
def image_export(
    name: Annotated[str, typer.Argument(help="A folder of resources/images/.")],
    file: Annotated[Path, typer.Argument(help="The archive to write.")],
) -> None:
    """Write a built image as an OCI archive, which podman, docker and skopeo read."""
    from argosy.images.interchange.exporting import export_image
    from argosy.images.store.lockfile import read_lock
    from argosy.images.store.store import Store
    from argosy.units import amount

    lock = read_lock(Path("resources/images") / name / "image.lock")
    size = export_image(Store.of_project(Path.cwd()), lock, file)
    print(f"{file}: image {name} {lock.digest[:19]}, {amount(size)}")


@images.command("import")
def image_import(
    source: Annotated[
        str,
        typer.Argument(
            help="An OCI archive or folder, a file of docker save, docker://REFERENCE, udocker:NAME:TAG."
        ),
    ],
    name: Annotated[str, typer.Argument(help="What the project calls the image.")],
) -> None:
    """Take an image of podman, docker, skopeo, udocker or of a registry into the store, for runs to use."""
    from argosy.images.interchange.sources import take_image
    from argosy.images.store.store import Store

    lock = take_image(Store.of_project(Path.cwd()), Path.cwd(), source, name, say)
    print(f"image {name} {lock.digest[:19]}: {len(lock.steps)} layers from {lock.base.reference}")
