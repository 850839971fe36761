"""One attempt of a run, and its files in the run's folder (docs/run-folder.md)."""

from __future__ import annotations

import contextlib
import os
from typing import Any, Mapping

from . import files, layout
from .run import RunSpec, run_of


class Attempt:
    """An attempt of the run in `run_dir`.

    `folder` has the host's files about it, `records` those of its agents and ranks, `logs` its own logs.
    `scheduler_log` is the log of its job, which covers all restarts.
    """

    def __init__(self, run_dir: str, name: str) -> None:
        self.run_dir, self.name = run_dir, name
        self.folder = os.path.join(run_dir, layout.ATTEMPTS, name)
        self.records = os.path.join(run_dir, layout.RECORDS, name)
        self.logs = os.path.join(run_dir, layout.LOGS, name)
        log = layout.scheduler_log(layout.job_of(name))
        self.scheduler_log = os.path.join(run_dir, layout.LOGS, log)

    def file(self, name: str) -> str:
        """Return the path of one of the host's files."""
        return os.path.join(self.folder, name)

    def read(self, name: str) -> dict[str, Any]:
        """Return the object in one of the host's files; empty without a valid one."""
        return files.try_object(self.file(name))

    def write(self, name: str, content: Mapping[str, Any]) -> None:
        """Write one of the host's files. Raises OSError."""
        os.makedirs(self.folder, files.FOLDER_MODE, exist_ok=True)
        files.write_json(self.file(name), {"schema_version": layout.SCHEMA_VERSION, **content})

    def run(self) -> RunSpec:
        """Return the run as the attempt claimed it, or run.json without a claim.

        The run may have been replanned since then.
        Raises:
            OSError: run.json cannot be read.
            ValueError: as `run_of`.
        """
        claimed = self.read(layout.CLAIM).get("run")
        if isinstance(claimed, dict):
            return run_of(claimed)
        return run_of(files.read_object(os.path.join(self.run_dir, layout.RUN)))

    def status(self, node: int) -> dict[str, Any]:
        """Return the status of a node's agent; empty without a valid one."""
        return files.try_object(os.path.join(self.records, layout.node_status(node)))

    def list_records(self) -> set[str]:
        """Return the names of the records. Listing refreshes NFS's cache."""
        with contextlib.suppress(OSError):
            return set(os.listdir(self.records))
        return set()
