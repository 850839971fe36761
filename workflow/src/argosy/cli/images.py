"""`argosy image`: commands that build, manage and exchange images."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from argosy.cli.commands import BUILD, EXCHANGE, LOOK, PLUMBING, Commands, JsonOption
from argosy.cli.output import say, show, show_json
from argosy.shipped.files import (
    check_import,
    has_containerfile,
    image_folder,
    image_folders,
    image_names,
    workloads_folder,
)
from argosy_common.errors import ArgosyError, choices, plain

if TYPE_CHECKING:
    from argosy_images import Store

images = Commands(help="Build, list, prune, import and export images.")
BuiltImage = Annotated[str, typer.Argument(metavar="IMAGE", help="Name of a built image.")]
LockOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Its image.lock (resources/images/IMAGE/image.lock)."),
]


def image_build(
    name: Annotated[str, typer.Argument(metavar="IMAGE", help="A folder of containers/.")],
    lock: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where to write image.lock.")
    ] = None,
    log: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where to write the steps' output.")
    ] = None,
    site: Annotated[
        str | None,
        typer.Option(metavar="SITE", help="Build here or in a job, as in this site's file."),
    ] = None,
    made_of: Annotated[
        str | None, typer.Option(hidden=True, metavar="JSON", help="`image` of config.yaml.")
    ] = None,
) -> None:
    """Build containers/IMAGE/Containerfile; run only the steps that are not cached."""
    from argosy.study.built_images import BuiltImage, written_image
    from argosy_images import build_image

    store, name = _store(), _name_of(name)
    of = BuiltImage.model_validate_json(made_of) if made_of else written_image(Path(), name)
    if of:
        of.write(Path())
    name = _known(name)
    lock = lock or Path("resources/images") / name / "image.lock"
    log = log or Path("logs/images") / f"{name}.log"
    if site is not None:
        from argosy.cli.site_names import site_called
        from argosy.jobs.building import Build, build_by_job
        from argosy.jobs.planning import Project
        from argosy.site.models import read_site

        site = site_called(site)
        facts = read_site(Path("slurm") / site)
        if facts.images.build == "job":
            build = Build(Project(Path.cwd()), site, name, lock, log)
            build_by_job(build, facts, say)
            return
    try:
        build_image(store, image_folder(Path(), name), lock, log, image_folders(Path()))
    except ArgosyError as problem:
        explained = of.explain(problem) if of else problem
        # Snakemake prints the end of this log.
        with suppress(OSError), log.open("a", encoding="utf-8") as file:
            print(f"error: {explained.lines}", file=file)
        raise explained from None


def image_pack(
    name: BuiltImage,
    lock: LockOption = None,
    output: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Output for the workflow: file for the packed size."),
    ] = None,
) -> None:
    """Pack a built image into one file, for sites whose nodes unpack images."""
    from argosy_common.files import write_json
    from argosy_images import ImageLock, pack_image

    store = _store()
    image = ImageLock.read(lock or _lock_of(name))
    path = pack_image(store, image, say)
    if output:
        write_json(output, {"digest": image.digest, "size": path.stat().st_size})


def image_native(
    name: BuiltImage,
    lock: LockOption = None,
    folder: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Folder to create (resources/images/IMAGE/native)."),
    ] = None,
) -> None:
    """Make a folder with a built image's Python and packages, for use without a container."""
    from argosy_images import ImageLock, make_environment

    store = _store()
    image = ImageLock.read(lock or _lock_of(name))
    print(
        plain(str(make_environment(store, image, folder or ImageLock.native_dir(Path.cwd(), name))))
    )


def image_shell(
    name: BuiltImage,
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="COMMAND", help="Program to run instead of a shell, after `--`."),
    ] = None,
) -> None:
    """Open a shell in a built image, or run a program there."""
    from argosy_images import look_inside

    store, lock, workloads = _store(), _lock_of(name), workloads_folder(Path.cwd())
    raise typer.Exit(look_inside(store, lock, workloads, command or [], say))


def image_list(
    json: JsonOption = False,
) -> None:
    """List the images in the store, and the size of the cache of build steps."""
    from argosy.cli.image_tables import described, of_inventory
    from argosy_images import Inventory

    inventory = Inventory.of(_store())
    if json:
        return show_json(described(inventory))
    return show(*of_inventory(inventory))


def image_why(
    name: Annotated[str, typer.Argument(metavar="IMAGE", help="A folder of containers/.")],
) -> None:
    """Show which steps of an image are cached, and why the others must run."""
    from argosy.cli.image_tables import of_findings
    from argosy.study.built_images import written_image
    from argosy_images import Plan

    store, name = _store(), _known(name)
    plan = Plan.of(store, image_folder(Path(), name), image_folders(Path()))
    if (of := written_image(Path(), name)) and of.is_outdated(Path()):
        say(
            f"{of.python} has changed: the next build reads it again; these are the last build's steps"
        )
    show(*of_findings(name, plan.explain()))


def image_engines(
    name: Annotated[str | None, typer.Argument(hidden=True)] = None,
    *,
    every: Annotated[
        bool, typer.Option("--all", help="Also measure engines without isolation if others work.")
    ] = False,
) -> None:
    """Measure the container engines on this host, and record the choice for runs.

    Engines without isolation are measured only if no other works. The first run on a new kind of
    host measures by itself. No image is needed.
    """
    from argosy.cli.image_tables import of_trials
    from argosy_images import choose_engine

    store = _store()
    choice = choose_engine(store, every=every)
    show(*of_trials(choice.trials, choice.engine))
    if weakness := choice.caution:
        say(weakness)
    if not store.is_writable:
        say(f"not saved: {store.path} is not writable, so each run here measures again")


def image_prune(
    older_than: Annotated[
        str | None, typer.Option(help="Remove images unused for this long (e.g. 30d).")
    ] = None,
    keep: Annotated[
        str | None,
        typer.Option(help="Remove least recently used images, down to this size (e.g. 20G)."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only list the images and steps to remove.")
    ] = False,
) -> None:
    """Remove images and cached steps that no image.lock names and no run uses.

    Without an option it removes all of them. Notes in the store name the projects and runs that use
    images; --dry-run lists them.
    """
    from argosy_common.units import mebibytes, seconds
    from argosy_images import prune

    age = _option("--older-than", older_than, seconds)
    size = _option("--keep", keep, lambda text: mebibytes(text) << 20)
    prune(_store(), Path.cwd(), print, age=age, size=size, dry_run=dry_run)


def image_share() -> None:
    """Let other users run the store's images, without any other access.

    Layers, builds and downloads stay private, and files in images keep their modes. Users who can
    reach the store set ARGOSY_STORE to it.
    """
    from argosy_images import share

    share(_store(), say)


def image_export(
    name: BuiltImage,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Archive to write.")],
) -> None:
    """Write a built image as an OCI archive, which podman, docker and skopeo read."""
    from argosy_common.units import amount
    from argosy_images import ImageLock, export_image

    store = _store()
    lock = ImageLock.read(_lock_of(name))
    size = export_image(store, lock, file)
    print(f"{file}: image {lock.name} {lock.digest[:19]}, {amount(size)}")


def image_import(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="An OCI archive or folder, a file of docker save (FILE:NAME for one image of "
            "several), a SIF file, docker://REFERENCE or udocker:NAME:TAG.",
        ),
    ],
    name: Annotated[
        str, typer.Argument(metavar="IMAGE", help="Name of the image in this project.")
    ],
) -> None:
    """Import an image of podman, docker, skopeo, udocker or a registry into the store."""
    from argosy_images import take_image

    check_import(Path.cwd(), name, source)
    lock = take_image(_store(), Path.cwd(), source, name, say)
    print(f"image {name} {lock.digest[:19]}: {len(lock.steps)} layers from {lock.base.reference}")


def image_eject(
    name: Annotated[str, typer.Argument(metavar="IMAGE", help="An image that comes with Argosy.")],
) -> None:
    """Copy an image that comes with Argosy into containers/, to change it."""
    from argosy.cli.site_names import require_project
    from argosy.shipped.new_project import eject_image

    require_project()
    print(*(f"wrote {path}" for path in eject_image(Path.cwd(), name)), sep="\n")


def _store() -> "Store":
    """Return the store; raises ArgosyError outside a project, so that no command creates a store there."""
    from argosy.cli.site_names import require_project
    from argosy_images import Store

    if not os.environ.get(Store.VARIABLE):
        require_project()
    return Store.of_project(Path.cwd())


def _option(name: str, text: str | None, parse: Callable[[str], int]) -> int | None:
    """Parse an option's value; raises ArgosyError with the option's name if it is invalid."""
    try:
        return None if text is None else parse(text)
    except ValueError as problem:
        raise ArgosyError(f"{name} {text}: {problem}") from None


def _known(image: str) -> str:
    """Return the name of a folder of containers/; raises ArgosyError with the known names."""
    name = _name_of(image)
    if not has_containerfile(image_folder(Path(), name)):
        raise ArgosyError(
            f"containers/{name}/Containerfile: there is no such file",
            choices(image_names(Path()), name),
        )
    return name


def _lock_of(image: str) -> Path:
    """Return the image.lock of a built image; raises ArgosyError with the built images."""
    name = _name_of(image)
    path = Path("resources/images") / name / "image.lock"
    if path.is_file():
        return path
    if name in image_names(Path()):
        raise ArgosyError(f"{path}: the image is not built yet", f"run: argosy image build {name}")
    built = sorted(each.parent.name for each in path.parents[1].glob("*/image.lock"))
    raise ArgosyError(f"{path}: there is no such image", choices(built, name))


def _name_of(image: str) -> str:
    """Return an image's name from its name or folder, since shells complete folders."""
    path = os.path.relpath(image or ".")
    name = path.removeprefix("containers/").removeprefix("resources/images/")
    if "/" in name or name in (".", ".."):
        # Otherwise image.lock would be written beside an image of another folder.
        raise ArgosyError(
            f"{image!r}: names no image of this project", choices(image_names(Path()), name)
        )
    return name


for function, section in (
    (image_build, BUILD),
    (image_why, BUILD),
    (image_eject, BUILD),
    (image_list, LOOK),
    (image_shell, LOOK),
    (image_prune, LOOK),
    (image_engines, LOOK),
    (image_import, EXCHANGE),
    (image_share, EXCHANGE),
    (image_export, EXCHANGE),
    (image_pack, PLUMBING),
    (image_native, PLUMBING),
):
    images.add(function, section, function.__name__.removeprefix("image_"))
