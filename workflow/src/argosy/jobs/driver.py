"""Checks a driver, a Snakemake that starts runs: it is alone at its site, with its profile and executor.

A second driver would submit every run of the site again.

Snakemake's own lock is a file that stays behind when its process is killed. The kernel releases the
driver's lock with its process, so that after a crash the next start needs no `--unlock`.
"""

import argparse
import logging
import os
import socket
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from filelock import FileLock, Timeout

from argosy_common.errors import ArgosyError

VARIABLE = "SNAKEMAKE_PROFILE"


def check_profile(site: str, said: Collection[str], arguments: Sequence[str]) -> None:
    """Reject a `--config` that drops the site of the profile.

    In Snakemake, `--config` on the command line replaces the profile's `config` as a whole. The runs would
    go to the site of config.yaml, which is often the login node itself.

    Args:
        site: the site of the runs.
        said: the keys of `config` from the command line, or else from the profile.
        arguments: Snakemake's arguments, without its name.

    Raises:
        ArgosyError: with the key to add.
    """
    if "site" in said:
        return
    for profile in _profiles(arguments):
        if profile.name != site:
            raise ArgosyError(
                f"--config: replaces `config` of the profile {profile}, so the runs would go to {site}",
                f"add site={profile.name} to --config",
            )


def _profiles(arguments: Sequence[str]) -> Iterator[Path]:
    """Yield the folders of sites given as profiles on the command line, or else in the variable."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--profile", action="extend", nargs="+", default=[])
    asked = parser.parse_known_args(list(arguments))[0].profile
    for name in asked or [os.environ.get(VARIABLE, "")]:
        folder = Path(name) if Path(name).is_dir() else Path(name).parent
        if (folder / "site.yaml").is_file():
            yield folder


OTHER_EXECUTOR = (
    "runs need Snakemake's executor argosy, but this snakemake uses another one: remove --executor, or "
    "write --executor argosy"
)

THIS_PROCESS = "/proc/self"
"""The kernel's folder of this process: it always exists, and is newer than files of earlier processes."""


def check_until(rules: Collection[str]) -> None:
    """Raise ArgosyError if `--until` names the rule `run`.

    With this option Snakemake loses the jobs that the planning checkpoint adds, and still exits with 0.
    """
    if "run" in rules:
        raise ArgosyError(
            "--until run: Snakemake would plan the runs and end without starting one",
            "use --until tables, which ends after all runs",
        )


def check_executor(name: str) -> None:
    """Accept Argosy's executor, and `touch`, which starts no job.

    Raises:
        ArgosyError: for other executors, which would run the training here, perhaps on a login node.
    """
    if name not in ("argosy", "touch"):
        raise ArgosyError(OTHER_EXECUTOR)


def put_commands_on_path() -> None:
    """Prepend the environment that runs Snakemake to PATH, so that rules use its commands.

    Snakemake's shell prefix would replace the prefix of a workflow that uses Argosy as a module. Programs
    without a container get the user's PATH back (native-node.sh).
    """
    folder = str(Path(sys.executable).parent)
    path = os.environ.get("PATH", os.defpath)
    if path.split(os.pathsep)[0] != folder:
        os.environ["PATH"] = os.pathsep.join((folder, path))
        os.environ["ARGOSY_COMMANDS"] = folder


@dataclass(frozen=True)
class HandedOn:
    """A text in memory, which programs started by this process read by a path."""

    file: IO[bytes]

    @classmethod
    def of(cls, text: str) -> "HandedOn":
        """Store `text` for the lifetime of this object."""
        # Some C libraries lack memfd_create.
        if hasattr(os, "memfd_create"):
            file = os.fdopen(os.memfd_create("study"), "w+b")
        else:
            file = TemporaryFile()  # noqa: SIM115
        file.write(text.encode())
        file.flush()
        return cls(file)

    @property
    def path(self) -> str:
        """Path of the text for programs of the same user."""
        return f"/proc/{os.getpid()}/fd/{self.file.fileno()}"


@dataclass(frozen=True)
class JobError:
    """A failed job of the workflow, from Snakemake's messages."""

    rule: str
    message: str
    """The executor's message; empty for a rule that runs here, whose log has the error."""
    outputs: tuple[str, ...]
    logs: tuple[str, ...]


class ToldErrors(logging.Handler):
    """Collects the jobs that failed while this Snakemake ran."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.began = time.time()
        self.errors: list[JobError] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Collect a message if it reports a job's error."""
        said = vars(record)
        if rule := said.get("rule_name"):
            message = str(said.get("rule_msg") or "")
            outputs, logs = (tuple(map(str, said.get(key) or ())) for key in ("output", "log"))
            self.errors.append(JobError(str(rule), message, outputs, logs))


class LockedError(ArgosyError):
    """Another driver manages the site's runs; the text names it."""


@dataclass(frozen=True)
class DriverLock:
    """The lock of a site, held by this process."""

    lock: FileLock
    note: Path

    @classmethod
    def take(cls, folder: Path, site: str) -> "DriverLock":
        """Acquire the lock of `site` below `folder`, a project's .snakemake; reentrant within the process.

        Raises:
            LockedError: if another process holds it.
        """
        folder.mkdir(exist_ok=True)
        note = folder / f"argosy-driver-{site}"
        # A singleton for all threads of the process makes the lock reentrant.
        lock = FileLock(
            folder / f"argosy-driver-{site}.lock", mode=0o600, thread_local=False, is_singleton=True
        )
        try:
            lock.acquire(timeout=0)
        except Timeout:
            owner = (
                note.read_text(encoding="utf-8").strip() if note.is_file() else "another process"
            )
            raise LockedError(
                f"another snakemake manages the runs of {site} ({owner})",
                "wait for it, or end it",
            ) from None
        note.write_text(f"process {os.getpid()} on {socket.gethostname()}\n", encoding="utf-8")
        return cls(lock, note)

    def release(self) -> None:
        """Release the lock."""
        self.lock.release()
