"""Lets Snakemake look at a project that cannot be written to.

It keeps notes on what it made in `.snakemake`. Without that folder even a dry run ends with a traceback.
"""

import tempfile
from pathlib import Path
from typing import Any

from snakemake import workflow
from snakemake.persistence.file import FilePersistence

from snakemake_executor_plugin_argosy.cache_folder import can_be_made

FOLDER = Path(".snakemake")


def provide_notes_folder() -> None:
    """Have notes be written into a temporary folder where this folder's `.snakemake` cannot be changed."""
    if not can_be_made(FOLDER.absolute()):
        workflow.FilePersistence = _Elsewhere


class _Elsewhere(FilePersistence):
    """Notes in a folder of this process; what was noted of the project's files is read where it lies."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="argosy-")
        path = Path(self._folder.name)
        for notes in ("metadata", "incomplete"):
            if (FOLDER / notes).is_dir():
                (path / notes).symlink_to((FOLDER / notes).absolute())
        super().__init__(*arguments, **{**options, "path": path})
