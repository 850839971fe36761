"""Provides a cache folder for Snakemake if the home folder is missing or not writable.

Snakemake creates one before it reads a workflow, and fails with a traceback otherwise. It loads executors
earlier.
"""

import os
from pathlib import Path

VARIABLE = "XDG_CACHE_HOME"


def provide_cache_folder() -> None:
    """Redirect Snakemake's caches to this folder's `.snakemake` if its own folder is unusable."""
    if not can_be_made(_wanted()):
        os.environ[VARIABLE] = str(Path(".snakemake", "cache").absolute())


def _wanted() -> Path | None:
    """Return Snakemake's cache folder; None without a home folder."""
    try:
        return Path(os.environ.get(VARIABLE) or Path("~/.cache").expanduser()).absolute()
    except RuntimeError:
        return None


def can_be_made(folder: Path | None) -> bool:
    """Return whether a folder is writable, or can be created."""
    places = (folder, *folder.parents) if folder else ()
    there = (os.access(place, os.W_OK) for place in places if os.access(place, os.F_OK))
    return next(there, False)
