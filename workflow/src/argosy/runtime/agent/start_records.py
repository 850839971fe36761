"""What the files of a starting job say of its nodes: they are read where no connection tells."""

from __future__ import annotations

import json
import os
import time
from typing import Any, Mapping

from .failure import OTHER, Failure
from .settings import Settings
from .status import CANCELLED, FAILED

NOT_STARTED = "not-started.json"
"""Written by watch_start.py, on the job's first host."""


class StartRecords:
    """The records of one incarnation, by the names that docs/run-folder.md gives them."""

    def __init__(self, settings: Settings) -> None:
        self._folder = settings.records

    def names(self) -> set[str]:
        """The files that there are. Listing a folder makes NFS forget what it believed about them."""
        try:
            return set(os.listdir(self._folder))
        except OSError:
            return set()

    def not_started(self, names: set[str]) -> Failure | None:
        """The failure of the node that is known not to start."""
        said = self._read(NOT_STARTED) if NOT_STARTED in names else None
        return failure_of(said) if said else None

    def status(self, node: int, names: set[str]) -> Mapping[str, Any] | None:
        """What the node's agent says of itself; None before it has begun."""
        name = f"node-{node}.json"
        return self._read(name) if name in names else None

    def _read(self, name: str) -> Mapping[str, Any] | None:
        try:
            with open(os.path.join(self._folder, name), encoding="utf-8") as file:
                content = json.load(file)
        except (OSError, ValueError):
            return None
        return content if isinstance(content, dict) else None


def failure_of(record: Mapping[str, Any]) -> Failure | None:
    """The failure that a file holds; None when it holds none."""
    try:
        return Failure.from_message({"rank": None, "kind": OTHER, **record})
    except (KeyError, TypeError, ValueError):
        return None


def ended_early(node: int, status: Mapping[str, Any]) -> Failure | None:
    """Why a node has ended that never reached the head, or was the head; None while it runs."""
    if status.get("state") not in (FAILED, CANCELLED):
        return None
    known = status.get("failure")
    found = failure_of(known) if isinstance(known, dict) else None
    return found or Failure(node, None, f"its agent ended: {status['state']}", time.time(), OTHER)
