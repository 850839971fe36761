"""Finds a command's site: by name, by one of its folders, or as the only one.

SITE may be `x`, `results/x`, `slurm/x`, or any other path to one of these folders. All commands with SITE
use this module, so they accept and refuse the same values.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from argosy.cli.output import say
from argosy.monitor.sites import RESULTS, has_results, site_folders
from argosy.site.models import LOCAL, misnamed_site
from argosy.site.overview import site_names
from argosy.yaml_file import read_yaml
from argosy_common.errors import ArgosyError, choices, some

SLURM = Path("slurm")
CONFIG = Path("config/config.yaml")
_MARKS = ("slurm", "results", "containers", ".argosy", str(CONFIG))
"""Files and folders of a project; one of them suffices."""


def require_project() -> None:
    """Raise ArgosyError if the current folder is not an Argosy project."""
    if any(Path(mark).exists() for mark in _MARKS):
        return
    where = Path().absolute()
    above = next((each for each in where.parents if (each / CONFIG).exists()), None)
    raise ArgosyError(
        f"this is not an Argosy project: {where} has no slurm/, results/, containers/ or {CONFIG}",
        f"cd {above}" if above else "change to the project's folder, or make one: argosy init",
    )


def allow_new_project() -> None:
    """Raise ArgosyError inside a project's subfolder; any other folder may become a project."""
    if any((each / CONFIG).exists() for each in Path().absolute().parents):
        require_project()


def results_of(site: str | None) -> Path:
    """Return the results folder of a site (default: the only site, or config.yaml's).

    Raises:
        ArgosyError: if there is no such site or it has no results; with suggestions.
    """
    if site is None:
        return _default_results()
    folder = _folder_called(site)
    if folder.is_dir() and has_results(folder):
        return folder
    raise _no_results(site, folder)


def site_called(site: str | None) -> str:
    """Return the name of a site in slurm/ (default: the only site, or config.yaml's).

    Raises:
        ArgosyError: if there is no such site, with the known names.
    """
    require_project()
    names = site_names(SLURM)
    if site is None:
        return names[0] if len(names) == 1 else _named_by_config(names)
    path = Path(os.path.normpath(site))
    is_of_project = path.parent.absolute() in (SLURM.absolute(), RESULTS.absolute())
    name = path.name if is_of_project else site
    if (SLURM / name / "site.yaml").is_file() and name not in ("", ".", ".."):
        return name
    raise misnamed_site(SLURM / name) or ArgosyError(
        f"slurm/{name}/site.yaml: there is no such site", choices(names, name)
    )


def complete_site(incomplete: str) -> list[str]:
    """Return the sites whose names start with `incomplete`, for the shell's completion."""
    names = {*site_names(SLURM), *(each.name for each in site_folders())}
    return sorted(each for each in names if each.startswith(incomplete))


def _default_results() -> Path:
    require_project()
    folders = site_folders()
    if not folders:
        raise ArgosyError(f"{RESULTS}: there are no results here", "run: snakemake")
    if len(folders) == 1:
        return folders[0]
    return RESULTS / _named_by_config([each.name for each in folders])


def _named_by_config(names: Sequence[str]) -> str:
    """Return the site of config.yaml and print it; raises ArgosyError if it is not in `names`."""
    with suppress(ArgosyError, AttributeError):
        name = read_yaml(CONFIG).get("site", LOCAL)
        if name in names:
            say(f"site {name}, of {CONFIG}")
            return str(name)
    raise ArgosyError("SITE: several sites have results here", f"name one of {some(names)}")


def _folder_called(site: str) -> Path:
    """Return the results folder for SITE, which may not exist."""
    path = Path(os.path.normpath(site)) if site else RESULTS
    if path.parent.name == SLURM.name and (path / "site.yaml").is_file():
        return path.parent.parent / RESULTS / path.name
    is_name = len(path.parts) == 1 and path.name not in ("", ".", "..") and not path.is_absolute()
    if is_name and (not path.is_dir() or (RESULTS / path).is_dir()):
        return RESULTS / path
    return path


def _no_results(site: str, folder: Path) -> ArgosyError:
    """Return the error for a folder without a site's results."""
    if meant := [*_results_below(folder)] or [*_results_above(folder)]:
        what = "a file" if folder.is_file() else "not a folder of a site's results"
        what = what if folder.exists() else "not there"
        return ArgosyError(f"{folder}: this is {what}", f"did you mean {some(meant)}?")
    if folder.parent == RESULTS:
        require_project()
        if folder.is_dir() or folder.name in site_names(SLURM):
            return ArgosyError(f"{folder}: no run is planned here", _how_to_run(folder.name))
        if misnamed := misnamed_site(SLURM / folder.name):
            return misnamed
        there = [each.name for each in site_folders()]
        hint = choices(there, folder.name) if there else "run: snakemake"
        return ArgosyError(f"{folder}: there are no such results", hint)
    if not folder.exists():
        return ArgosyError(f"{site}: there is no such folder", "name a site, or its results")
    what = "a folder" if folder.is_dir() else "a file"
    return ArgosyError(f"{site}: this is {what} without a site's results", "name results/SITE")


def _how_to_run(site: str) -> str:
    return "run: snakemake" if site == LOCAL else f"run: snakemake --profile slurm/{site}"


def _results_below(folder: Path) -> Iterator[str]:
    """Yield the folders of results one or two levels below a folder."""
    for place in (folder, folder / RESULTS):
        with suppress(OSError):
            inside = sorted(each for each in place.iterdir() if each.is_dir())
            yield from (str(each) for each in inside if has_results(each))


def _results_above(folder: Path) -> Iterator[str]:
    """Yield the folder of results above a folder or file."""
    for place in folder.parents:
        with suppress(OSError):
            if place.parent.name == RESULTS.name and has_results(place):
                yield str(place)
