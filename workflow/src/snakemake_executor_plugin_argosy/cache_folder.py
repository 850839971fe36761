"""Gives Snakemake a folder for its caches where the home folder is gone or cannot be written to.

Snakemake makes one before it reads a workflow, and without one ends with a traceback. Executors are loaded
earlier.
"""

import os
from pathlib import Path

VARIABLE = "XDG_CACHE_HOME"


def provide_cache_folder() -> None:
    """Let Snakemake keep its caches in this folder's `.snakemake` where it cannot in the home folder."""
    if not can_be_made(_wanted()):
        os.environ[VARIABLE] = str(Path(".snakemake", "cache").absolute())


def _wanted() -> Path | None:
    """Return where Snakemake would keep them; None where nobody knows the home folder."""
    try:
        return Path(os.environ.get(VARIABLE) or Path("~/.cache").expanduser()).absolute()
    except RuntimeError:
        return None


def can_be_made(folder: Path | None) -> bool:
    """Return whether a folder is there or can be made, and can be written to."""
    places = (folder, *folder.parents) if folder else ()
    there = (os.access(place, os.W_OK) for place in places if os.access(place, os.F_OK))
    return next(there, False)
