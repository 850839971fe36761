"""Enables dry runs of Snakemake in a read-only project.

Snakemake records its outputs in `.snakemake`. Without a writable folder even a dry run fails.
"""

import tempfile
from pathlib import Path
from typing import Any

from snakemake import workflow
from snakemake.persistence.file import FilePersistence

from snakemake_executor_plugin_argosy.cache_folder import can_be_made

FOLDER = Path(".snakemake")


def provide_notes_folder() -> None:
    """Redirect Snakemake's records to a temporary folder if this folder's `.snakemake` is not writable."""
    if not can_be_made(FOLDER.absolute()):
        workflow.FilePersistence = _Elsewhere


class _Elsewhere(FilePersistence):
    """Records in a temporary folder of this process, with links to the project's existing ones."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="argosy-")
        path = Path(self._folder.name)
        for notes in ("metadata", "incomplete"):
            if (FOLDER / notes).is_dir():
                (path / notes).symlink_to((FOLDER / notes).absolute())
        super().__init__(*arguments, **{**options, "path": path})
