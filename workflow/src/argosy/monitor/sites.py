"""Where the runs of a project's sites are."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from argosy.errors import ArgosyError
from argosy.reading import entries
from argosy.run_folder.attempts import by_number

RESULTS = Path("results")
TABLES = "tables"


def site_folder(site: str | None) -> Path:
    """Return the folder of a site's results, by name or path; without either, the only one there is.

    Raises:
        ArgosyError: naming the choices.
    """
    sites = site_folders()
    if site is None and len(sites) == 1:
        return sites[0]
    if site:
        for folder in (Path(site), RESULTS / site):
            if folder.is_dir():
                return folder
    names = ", ".join(folder.name for folder in sites)
    if not names:
        raise ArgosyError(f"{RESULTS}: there are no results here", "run: snakemake")
    if site is None:
        raise ArgosyError(f"{RESULTS}: name one of its sites: {names}")
    raise ArgosyError(f"{RESULTS / site}: there is no such folder", f"{RESULTS} has: {names}")


def site_folders() -> list[Path]:
    """Return the folders of sites that have results."""
    # The folder of a site may be a link, to where there is room: whoever has the project made it.
    try:
        names = sorted(each.name for each in entries(RESULTS, RESULTS) if each.is_dir())
    except OSError:
        return []
    return [RESULTS / name for name in names if name[0] != "."]


def run_folders(site: Path) -> Iterator[Path]:
    """Yield the planned runs of a site, by experiment and size, and what stands in the place of one."""
    for experiment in _places(site):
        if experiment.name != TABLES:
            runs = [run for run in _places(experiment) if _may_be_run(run)]
            yield from sorted(runs, key=lambda run: by_number(run.name))


def _places(folder: Path) -> list[Path]:
    """Return the folders in a folder and links to some: nothing is read by those, which a view says."""
    with suppress(OSError):
        names = [each.name for each in entries(folder, folder) if each.is_dir()]
        return [folder / name for name in sorted(names) if name[0] != "."]
    return []


def _may_be_run(folder: Path) -> bool:
    with suppress(OSError):
        (folder / "run.json").lstat()
        return True
    return False
