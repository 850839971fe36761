"""What a driver, a Snakemake that starts runs, has to be: alone at its site, with its profile and executor.

A second driver would submit every run of the site again.

Snakemake's own lock is a file that stays behind when its process is killed. This one is the kernel's
and goes with its process, so that after a crash the next start needs no `--unlock`.
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
    """Refuse a `--config` that has dropped the site of the profile.

    Snakemake lets `--config` on the command line replace all of the profile's `config`. The runs would go
    to the site of config.yaml, which is often the login node itself.

    Args:
        site: the runs go to.
        said: the keys of `config` from the command line, or else from the profile.
        arguments: Snakemake's own, without its name.

    Raises:
        ArgosyError: naming the key to add.
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
    """Yield the folders of sites that the command line, or else the variable, names as profiles."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--profile", action="extend", nargs="+", default=[])
    asked = parser.parse_known_args(list(arguments))[0].profile
    for name in asked or [os.environ.get(VARIABLE, "")]:
        folder = Path(name) if Path(name).is_dir() else Path(name).parent
        if (folder / "site.yaml").is_file():
            yield folder


OTHER_EXECUTOR = (
    "runs are started by Snakemake's executor argosy, and this snakemake has another one: remove "
    "--executor, or write --executor argosy"
)

THIS_PROCESS = "/proc/self"
"""The kernel's folder of this process: always there, and newer than all files of earlier ones."""


def check_until(rules: Collection[str]) -> None:
    """Raise ArgosyError where `--until` names the rule of the runs.

    Planning is a checkpoint that takes the place of the rule's jobs; Snakemake loses them, and ends well.
    """
    if "run" in rules:
        raise ArgosyError(
            "--until run: Snakemake would plan the runs and end without starting one",
            "use --until tables, which ends after all runs",
        )


def check_executor(name: str) -> None:
    """Accept Argosy's executor, and `touch`, which starts nothing.

    Raises:
        ArgosyError: any other one would run the training right here, on a login node perhaps.
    """
    if name not in ("argosy", "touch"):
        raise ArgosyError(OTHER_EXECUTOR)


def put_commands_on_path() -> None:
    """Have the commands of rules be those of the environment that runs Snakemake, activated or not.

    Snakemake's own way, a prefix of all shell commands, would replace the prefix of a workflow that uses
    Argosy's as a module. Programs without a container get the user's own again (native-node.sh).
    """
    folder = str(Path(sys.executable).parent)
    path = os.environ.get("PATH", os.defpath)
    if path.split(os.pathsep)[0] != folder:
        os.environ["PATH"] = os.pathsep.join((folder, path))
        os.environ["ARGOSY_COMMANDS"] = folder


@dataclass(frozen=True)
class HandedOn:
    """A text for programs that this process starts, in memory: no folder has a file of it."""

    file: IO[bytes]

    @classmethod
    def of(cls, text: str) -> "HandedOn":
        """Hold `text` as long as this object lives."""
        # Some builds of Python are for C libraries that lack it.
        if hasattr(os, "memfd_create"):
            file = os.fdopen(os.memfd_create("study"), "w+b")
        else:
            file = TemporaryFile()  # noqa: SIM115
        file.write(text.encode())
        file.flush()
        return cls(file)

    @property
    def path(self) -> str:
        """Return the path by which programs of the same user open it."""
        return f"/proc/{os.getpid()}/fd/{self.file.fileno()}"


@dataclass(frozen=True)
class JobError:
    """A job of the workflow that failed, as Snakemake was told."""

    rule: str
    message: str
    """The executor's; empty for a rule that runs here, whose log says why."""
    outputs: tuple[str, ...]
    logs: tuple[str, ...]


class ToldErrors(logging.Handler):
    """Remembers the jobs that failed while this Snakemake ran."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.began = time.time()
        self.errors: list[JobError] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Note a job's error among Snakemake's messages."""
        said = vars(record)
        if rule := said.get("rule_name"):
            message = str(said.get("rule_msg") or "")
            outputs, logs = (tuple(map(str, said.get(key) or ())) for key in ("output", "log"))
            self.errors.append(JobError(str(rule), message, outputs, logs))


class LockedError(ArgosyError):
    """Another driver has the site; the text names it."""


@dataclass(frozen=True)
class DriverLock:
    """A lock that is held."""

    lock: FileLock
    note: Path

    @classmethod
    def take(cls, folder: Path, site: str) -> "DriverLock":
        """Take the lock of `site` below `folder`, a project's .snakemake; again where this process has it.

        Raises:
            LockedError: when another process holds it.
        """
        folder.mkdir(exist_ok=True)
        note = folder / f"argosy-driver-{site}"
        # One object in the process, of all its threads: who holds it may take it again.
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
        """Give the lock back."""
        self.lock.release()
