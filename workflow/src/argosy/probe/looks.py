"""Questions to nodes, their reports, and marks that identify shared folders (`runtime/node_look.py`)."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from argosy_common.files import write_text
from argosy_common.reading import read_text

SUFFIXES = ("i", "-ib", "ib", "-ib0", "-hsn", "-hsn0", "-opa", "-eth")
"""Suffixes of the names of nodes on the fast network at various sites."""

SCRATCH = ("/tmp", "/var/tmp", "/scratch", "/lscratch", "/localscratch", "/local", "/dev/shm")


@dataclass(frozen=True)
class Questions:
    """Questions to nodes, in addition to the fixed ones of every look.

    Args:
        folders: folders that nodes may lack.
        scratch: folders for temporary files, which may contain variables.
        suffixes: suffixes of a node's name on other networks.
        outside: hosts and ports to reach.
        paths: folders that nodes need, and whether they must be writable.
        commands: programs to run on a node, by name.
    """

    folders: Sequence[str] = ()
    scratch: Sequence[str] = ()
    suffixes: Sequence[str] = ()
    outside: Sequence[tuple[str, int]] = ()
    paths: Mapping[str, bool] = field(default_factory=dict)
    commands: Mapping[str, Sequence[str]] = field(default_factory=dict)


def of_any_cluster() -> Questions:
    """Return the questions for an unknown cluster."""
    return Questions(
        folders=_folders_here(), scratch=SCRATCH, suffixes=SUFFIXES, outside=_package_index()
    )


def _package_index() -> list[tuple[str, int]]:
    """Return host and port of the package index that pip is configured for, if any."""
    try:
        said = subprocess.run(
            [sys.executable, "-m", "pip", "config", "list"],
            capture_output=True,
            text=True,
            timeout=20,
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return []
    found = re.search(r"index[-_]url='(https?)://(?:[^@/']*@)?([\w.-]+)(?::(\d+))?", said)
    if not found:
        return []
    return [(found[2], int(found[3] or (443 if found[1] == "https" else 80)))]


def _folders_here() -> list[str]:
    """Return folders of this machine that nodes may lack, from HOME and similar variables."""
    named = (os.environ.get(name, "") for name in ("HOME", "WORK", "SCRATCH", "PROJECT"))
    return sorted({each for each in named if each.startswith("/") and Path(each).is_dir()})


class Part(BaseModel):
    """Part of a report; keys of later versions are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)


class Interface(Part):
    """A network interface with an address."""

    name: str
    infiniband: bool


class Scratch(Part):
    """A folder for temporary files."""

    written: str
    """The folder as written in a site's file, perhaps with a variable."""
    folder: str
    kind: str = ""
    """The type of its file system."""
    size_mib: int = 0
    """The size of its file system, which does not change from look to look."""
    free_mib: int = 0
    writable: bool = False
    runs_programs: bool = False
    problem: str = ""


class Connection(Part):
    """The connection from node 1 to node 0 over an interface."""

    problem: str = ""
    bytes_per_s: float = 0.0
    clock_ahead_s: float = 0.0
    """Seconds that node 0's clock is ahead."""
    clock_within_s: float = 0.0


class Meeting(Part):
    """A node's connections to other nodes."""

    interfaces: Mapping[str, Connection] = {}
    """On node 1: the connection to node 0 over each common interface."""
    peers: Mapping[str, Mapping[str, str]] = {}
    """Problem by node and interface; empty if the node was reached."""
    problem: str = ""


class Told(Part):
    """The exit status and last output of a program on a node."""

    status: int
    said: str


class NodeLook(Part):
    """A node's report about itself."""

    node: str
    number: int = 0
    nodes: int = 1
    """Number of nodes in the job."""
    architecture: str
    kernel: str
    system: str
    interfaces: tuple[Interface, ...]
    suffixes: Mapping[str, str]
    scratch: tuple[Scratch, ...]
    paths: Mapping[str, str] = {}
    """Problems of folders that nodes need; empty if there is none."""
    commands: Mapping[str, Told] = {}
    absent: tuple[str, ...]
    user_namespaces: bool
    gpus: tuple[str, ...]
    gpu_driver: str
    fabrics: tuple[str, ...]
    outside: Mapping[str, str]
    pythons: tuple[str, ...]
    meeting: Meeting = Meeting()


def read_problems(folder: Path, nodes: int) -> list[str]:
    """Return the problems that nodes of a job reported."""
    found = []
    for number in range(nodes):
        with suppress(OSError):
            found.append(read_text(folder / f"{number}.problem", folder).strip())
    return found


def read_looks(folder: Path, nodes: int) -> list[NodeLook]:
    """Return the reports of a job's nodes in order, without damaged or missing ones."""
    found = []
    for number in range(nodes):
        try:
            text = read_text(folder / f"{number}.json", folder)
            found.append(NodeLook.model_validate_json(text))
        except (OSError, ValidationError, json.JSONDecodeError):
            continue
    return found


PREFIX = ".argosy-look-"
NOT_SEEN = "is not shared: the login node does not see files that the node writes there"


@dataclass(frozen=True)
class Marks:
    """Files by which a job's nodes and this machine identify shared folders.

    Args:
        secret: the job's secret, a part of each file's name and its content.
        paths: folders, and whether nodes write into each.
    """

    secret: str
    paths: Mapping[str, bool]

    def leave(self) -> list[str]:
        """Write a mark into each folder for nodes to read; return the folders with a mark."""
        left = []
        for path in filter(os.path.isdir, self.paths):
            with suppress(OSError):
                write_text(Path(path) / f"{PREFIX}{self.secret}", self.secret)
                left.append(path)
        return left

    def checked(self, looks: Sequence[NodeLook], patience_s: float) -> list[NodeLook]:
        """Return the reports with a problem for each folder in which a node's mark is not visible here."""
        until = time.monotonic() + patience_s
        found = []
        for look in looks:
            written = [
                path for path in self.paths if self.paths[path] and look.paths.get(path) == ""
            ]
            unseen = [path for path in written if not self._is_seen(path, look.number, until)]
            problems = {**look.paths, **dict.fromkeys(unseen, NOT_SEEN)}
            found.append(look.model_copy(update={"paths": problems}))
        return found

    def remove(self, nodes: int) -> None:
        """Remove the marks of this machine and of `nodes` nodes."""
        for path in self.paths:
            for name in (self.secret, *(self._name(number) for number in range(nodes))):
                with suppress(OSError):
                    (Path(path) / f"{PREFIX}{name}").unlink()

    def _name(self, number: int) -> str:
        return f"{self.secret}-{number}"

    def _is_seen(self, path: str, number: int, until: float) -> bool:
        while True:
            with suppress(OSError):
                if (
                    read_text(Path(path) / f"{PREFIX}{self._name(number)}", Path(path))
                    == self.secret
                ):
                    return True
            if time.monotonic() > until:
                return False
            time.sleep(0.5)
