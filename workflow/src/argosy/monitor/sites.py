"""Where the runs of a project's sites are."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from argosy.reading import entries
from argosy.run_folder.attempts import by_number

RESULTS = Path("results")
TABLES = "tables"


def site_folders() -> list[Path]:
    """Return the folders of sites that have results."""
    # The folder of a site may be a link, to where there is room: whoever has the project made it.
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
    """Return whether a folder holds a site's runs, or what was made of them; raises OSError."""
    there = {each.name for each in entries(folder, folder)}
    made = "summary.json" in there or (folder / TABLES / "runs.parquet").exists()
    return made or any(True for _ in run_folders(folder))


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
