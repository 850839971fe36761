"""One driver of a site at a time: a second Snakemake would submit every run of it again.

Snakemake's own lock is a file that stays behind when its process is killed. This one is the kernel's
and goes with its process, so that after a crash the next start needs no `--unlock`.
"""

import os
import socket
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout


class LockedError(Exception):
    """Another driver has the site; the text names it."""


@dataclass(frozen=True)
class DriverLock:
    """A lock that is held."""

    lock: FileLock
    note: Path

    @classmethod
    def take(cls, folder: Path, site: str) -> "DriverLock":
        """Take the lock of `site` below `folder`, a project's .snakemake.

        Raises:
            LockedError: when another process holds it.
        """
        folder.mkdir(exist_ok=True)
        note = folder / f"argosy-driver-{site}"
        lock = FileLock(folder / f"argosy-driver-{site}.lock", mode=0o600)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            owner = (
                note.read_text(encoding="utf-8").strip() if note.is_file() else "another process"
            )
            raise LockedError(
                f"the runs of {site} are driven by another snakemake ({owner}); wait for it, or end it"
            ) from None
        note.write_text(f"process {os.getpid()} on {socket.gethostname()}\n", encoding="utf-8")
        return cls(lock, note)

    def release(self) -> None:
        """Give the lock back."""
        self.lock.release()
