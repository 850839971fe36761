"""Which jobs of this machine are alive: the scripts that the scheduler `local` runs, or a user by hand."""

import os
from functools import cached_property

import psutil

from argosy.run_folder.models import Job

SAME_PROCESS_S = 1.0
"""Process ids are used again; one that began at another time than recorded is somebody else's."""


class Machine:
    """The processes of one moment."""

    def runs(self, job: Job | None, attempt: str) -> bool:
        """Return whether the job's script runs, or what a killed script left behind."""
        return (job is not None and _is_alive(job)) or attempt in self._attempts

    @cached_property
    def _attempts(self) -> frozenset[str]:
        """Those whose processes are here: a script hands the name on to all that it starts."""
        found = set()
        for process in psutil.process_iter():
            try:
                if process.uids().real != os.getuid():
                    continue
                found.add(process.environ().get("ARGOSY_ATTEMPT", ""))
            except psutil.Error:
                continue
        return frozenset(found - {""})


def _is_alive(job: Job) -> bool:
    if job.pid is None or job.process_created is None:
        return False
    try:
        process = psutil.Process(job.pid)
        same = abs(process.create_time() - job.process_created) <= SAME_PROCESS_S
        return same and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.Error, ValueError, OverflowError):
        return False
