"""Which jobs of this machine are alive: the scripts that the scheduler `local` runs, or a user by hand."""

import os
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import psutil

SAME_PROCESS_S = 1.0
"""Process ids are used again; one that began at another time than recorded is somebody else's."""


class Machine:
    """The processes of one moment."""

    def runs(self, entry: Mapping[str, Any] | None, incarnation: str) -> bool:
        """Whether the job's script runs, or what a killed script left behind."""
        return (entry is not None and _is_alive(entry)) or incarnation in self._incarnations

    @cached_property
    def _incarnations(self) -> frozenset[str]:
        """Those whose processes are here: a script hands the name on to all that it starts."""
        found = set()
        for process in psutil.process_iter():
            try:
                if process.uids().real != os.getuid():
                    continue
                found.add(process.environ().get("ARGOSY_INCARNATION", ""))
            except psutil.Error:
                continue
        return frozenset(found - {""})


def _is_alive(entry: Mapping[str, Any]) -> bool:
    try:
        process = psutil.Process(int(entry["pid"]))
        same = abs(process.create_time() - float(entry["process_created"])) <= SAME_PROCESS_S
        return same and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.Error, KeyError, ValueError, TypeError, OverflowError):
        return False
