"""What the files of a starting job say of its nodes: they are read where no connection tells."""

from __future__ import annotations

import os
import time
from typing import Any, Mapping

from ...contract import layout
from ...contract.files import read_object
from ..settings import Settings
from ..status import CANCELLED, FAILED
from .failure import OTHER, Failure


class StartRecords:
    """The records of one attempt, by the names that docs/run-folder.md gives them."""

    def __init__(self, settings: Settings) -> None:
        self._records = settings.records
        self._attempt_dir = settings.attempt_dir

    def names(self) -> set[str]:
        """List the files that there are. Listing makes NFS forget what it believed about them."""
        return _names(self._records) | _names(self._attempt_dir)

    def not_started(self, names: set[str]) -> Failure | None:
        """Return the failure of the node that is known not to start."""
        name = layout.NOT_STARTED
        said = _read(os.path.join(self._attempt_dir, name)) if name in names else None
        return failure_of(said) if said else None

    def status(self, node: int, names: set[str]) -> Mapping[str, Any] | None:
        """Return what the node's agent says of itself; None before it has begun."""
        name = layout.node_status(node)
        return _read(os.path.join(self._records, name)) if name in names else None


def _names(folder: str) -> set[str]:
    try:
        return set(os.listdir(folder))
    except OSError:
        return set()


def _read(path: str) -> Mapping[str, Any] | None:
    try:
        return read_object(path)
    except (OSError, ValueError):
        return None


def failure_of(record: Mapping[str, Any]) -> Failure | None:
    """Return the failure that a file holds; None when it holds none."""
    try:
        return Failure.from_message({"rank": None, "kind": OTHER, **record})
    except (KeyError, TypeError, ValueError):
        return None


def ended_early(node: int, status: Mapping[str, Any]) -> Failure | None:
    """Return why a node has ended that never reached the head, or was the head; None while it runs."""
    if status.get("state") not in (FAILED, CANCELLED):
        return None
    known = status.get("failure")
    found = failure_of(known) if isinstance(known, dict) else None
    return found or Failure(node, None, f"its agent ended: {status['state']}", time.time(), OTHER)
