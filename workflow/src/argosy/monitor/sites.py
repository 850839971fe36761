"""Finds the folders of sites and of their runs."""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from argosy.run_folder.folder import by_number
from argosy.terminal import plural
from argosy_common.errors import ArgosyError, some
from argosy_common.files import read_paths
from argosy_common.reading import entries, site_of

RESULTS = Path("results")
TABLES = "tables"
PLANNED = "runs.txt"
CLOCKS_S = 2.0
"""Maximum difference of the clocks of a shared file system and this machine, in seconds."""


def site_folders() -> list[Path]:
    """Return the folders of all sites with results."""
    # A site's folder may be the project owner's link to a larger disk.
    try:
        names = sorted(each.name for each in entries(RESULTS, RESULTS) if each.is_dir())
    except OSError:
        return []
    folders = [RESULTS / name for name in names if name[0] != "."]
    return [folder for folder in folders if _may_have_results(folder)]


def _may_have_results(folder: Path) -> bool:
    with suppress(OSError):
        return has_results(folder)
    return False


def has_results(folder: Path) -> bool:
    """Return whether a folder contains a site's runs or report; raises OSError."""
    there = {each.name for each in entries(folder, folder)}
    made = "summary.json" in there or (folder / TABLES / "runs.parquet").exists()
    return made or any(True for _ in run_folders(folder))


def run_folders(site: Path) -> Iterator[Path]:
    """Yield the folders of a site's planned runs, sorted by experiment and size."""
    for experiment in _subfolders(site):
        if experiment.name != TABLES:
            runs = [run for run in _subfolders(experiment) if os.path.lexists(run / "run.json")]
            yield from sorted(runs, key=lambda run: by_number(run.name))


def has_result_since(run: Path, unix: float) -> bool:
    """Return whether a run completed after a time, by the clocks of a shared file system."""
    with suppress(OSError):
        return (run / "result.json").lstat().st_mtime > unix + CLOCKS_S
    return False


def planned_runs(site: Path) -> list[Path]:
    """Return the folders of the runs that the study plans; all runs if the site has no list of them.

    The list has paths of the project that planned the runs, so the site may have moved since.
    """
    try:
        listed = read_paths(site / PLANNED)
    except FileNotFoundError:
        return list(run_folders(site))
    return [site.joinpath(*planned.parts[-2:]) for planned in listed]


def not_planned(count: int) -> str:
    """Return the words for a number of runs that the study does not plan."""
    return f"left out: {plural(count, 'earlier run')} of this site that the study does not plan"


def _subfolders(folder: Path) -> list[Path]:
    """Return the subfolders of a folder, including links to folders; readers refuse those."""
    with suppress(OSError):
        names = [each.name for each in entries(folder, folder) if each.is_dir()]
        return [folder / name for name in sorted(names) if name[0] != "."]
    return []


def find_run(text: str) -> Path:
    """Return the folder of the run whose name equals or contains `text`.

    Raises:
        ArgosyError: if no run or several runs match, with the candidates.
    """
    sites = site_folders()
    runs = {
        run.relative_to(site.parent).as_posix(): run for site in sites for run in run_folders(site)
    }
    wanted = _in_results(text)
    if not runs:
        raise ArgosyError("results: no run is planned here", "run: snakemake")
    exact = [name for name in runs if f"/{name}".endswith(f"/{wanted}")]
    found = exact or [name for name in runs if wanted in name]
    if len(found) == 1:
        run = runs[found[0]]
        return site_of(run).resolve() / run.parent.name / run.name
    if found:
        raise ArgosyError(
            f"{text}: {len(found)} runs have this name", f"there are {_without_common_site(found)}"
        )
    if above := [name for name in runs if f"{wanted}/".startswith(f"{name}/")]:
        raise ArgosyError(
            f"{text}: this is not a run", f"did you mean {_without_common_site(above)}?"
        )
    raise ArgosyError(f"{text}: no such run", f"there are {_without_common_site(list(runs))}")


def _without_common_site(names: Sequence[str]) -> str:
    """List some names, without the site if all share it."""
    if len({name.partition("/")[0] for name in names}) == 1:
        names = [name.partition("/")[2] for name in names]
    return some(names)


def _in_results(text: str) -> str:
    """Convert a run's name or path to its name."""
    path = Path(os.path.normpath(text))
    if path.is_absolute() and path.is_relative_to(RESULTS.absolute()):
        return path.relative_to(RESULTS.absolute()).as_posix()
    return text.strip("/").removeprefix("./").removeprefix("results/")
