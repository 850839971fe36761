"""Finds the files that come with Argosy: Snakefile, rules, images, sites and templates of scripts.

A project's own file of the same path takes precedence. A wheel has them in `argosy/checkout/` (setup.py).
"""

from pathlib import Path

from argosy_common.errors import ArgosyError

_WHEEL = Path(__file__).parents[1] / "checkout"
SHIPPED = _WHEEL if _WHEEL.is_dir() else Path(__file__).parents[4]
"""The folder of these files."""
WORKLOADS = "containers/workloads"


def snakefile() -> str:
    """Return the path of Argosy's Snakefile, for `include:` in a project's Snakefile."""
    return str(SHIPPED / "Snakefile")


def is_shipped(project: Path, name: str) -> bool:
    """Return whether an image's Containerfile is Argosy's, not the project's."""
    own, shipped = (folder / "containers" / name for folder in (project, SHIPPED))
    return shipped.is_dir() and not own.exists()


def image_folder(project: Path, name: str) -> Path:
    """Return the folder of an image's Containerfile, which may not exist yet."""
    written = project / "resources/images" / name
    if (written / "Containerfile").is_file() and not (project / "containers" / name).exists():
        return written
    return (SHIPPED if is_shipped(project, name) else project) / "containers" / name


def image_folders(project: Path) -> tuple[Path, ...]:
    """Return the folders to search for FROM localhost/NAME: the project's, then Argosy's."""
    return tuple(folder / "containers" for folder in (project, SHIPPED))


def check_import(project: Path, name: str, source: str) -> None:
    """Raise ArgosyError for an import under the name of an image of Argosy."""
    if is_shipped(project, name):
        raise ArgosyError(
            f"{source}: {name} is the name of an image that comes with Argosy",
            f"choose another name: argosy image import {source} NAME",
        )


def image_names(project: Path) -> list[str]:
    """Return the names of all images that a project can build, sorted."""
    found = (
        folder.name
        for place in (project, SHIPPED)
        for folder in (place / "containers").glob("*")
        if has_containerfile(folder)
    )
    return sorted(set(found))


def has_containerfile(folder: Path) -> bool:
    """Return whether a folder has a Containerfile or a Dockerfile, so that it is an image's."""
    return any((folder / name).is_file() for name in ("Containerfile", "Dockerfile"))


def templates_folder(slurm: Path) -> Path:
    """Return the folder of the batch script templates: the project's, or else Argosy's."""
    own = slurm / "templates"
    return own if own.is_dir() else SHIPPED / "slurm/templates"


def workloads_folder(project: Path) -> Path:
    """Return the folder mounted as /workloads: `containers/workloads/`, or else the project."""
    own = (project / WORKLOADS).absolute()
    return own if own.is_dir() else project.absolute()
