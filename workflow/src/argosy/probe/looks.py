"""What nodes wrote of themselves (`runtime/node_look.py`)."""

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from argosy.reading import read_text


class Part(BaseModel):
    """Immutable; keys of a later version are left out."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)


class Interface(Part):
    """A network interface with an address."""

    name: str
    address: str
    infiniband: bool
    up: bool


class Scratch(Part):
    """A folder for temporary files."""

    written: str
    """As it would stand in a site's file, perhaps with a variable."""
    folder: str
    kind: str = ""
    """Of its file system."""
    size_mib: int = 0
    """Of its whole file system: alike in two folders of one, and today and tomorrow."""
    free_mib: int = 0
    writable: bool = False
    runs_programs: bool = False
    problem: str = ""


class Connection(Part):
    """What node 1 found when it reached for node 0 over an interface."""

    problem: str = ""
    bytes_per_s: float = 0.0
    clock_ahead_s: float = 0.0
    """How far node 0's clock is ahead."""
    clock_within_s: float = 0.0


class Meeting(Part):
    """How a node met the others."""

    interfaces: Mapping[str, Connection] = {}
    """Of node 1: how fast node 0 is over each interface that both have."""
    peers: Mapping[str, Mapping[str, str]] = {}
    """By the name of each other node and by interface: why it was not reached; empty where it was."""
    problem: str = ""


class Told(Part):
    """How a program ended on a node, and what it said last."""

    status: int
    said: str


class NodeLook(Part):
    """A node from the inside."""

    node: str
    number: int = 0
    nodes: int = 1
    """How many look together."""
    architecture: str
    kernel: str
    system: str
    cpus: int
    memory_mib: int
    interfaces: tuple[Interface, ...]
    suffixes: Mapping[str, str]
    scratch: tuple[Scratch, ...]
    paths: Mapping[str, str] = {}
    """Folders that nodes need, and what is wrong with each."""
    commands: Mapping[str, Told] = {}
    absent: tuple[str, ...]
    user_namespaces: bool
    gpus: tuple[str, ...]
    gpu_driver: str
    fabrics: tuple[str, ...]
    outside: Mapping[str, str]
    proxies: tuple[str, ...]
    pythons: tuple[str, ...]
    unix: float
    meeting: Meeting = Meeting()


def read_problems(folder: Path, nodes: int) -> list[str]:
    """Return why nodes of a job could not look, in their own words."""
    found = []
    for number in range(nodes):
        with suppress(OSError):
            found.append(read_text(folder / f"{number}.problem", folder).strip())
    return found


def read_looks(folder: Path, nodes: int) -> list[NodeLook]:
    """Return what the nodes of a job wrote, in their order; damaged or missing ones are left out."""
    found = []
    for number in range(nodes):
        try:
            text = read_text(folder / f"{number}.json", folder)
            found.append(NodeLook.model_validate_json(text))
        except (OSError, ValidationError, json.JSONDecodeError):
            continue
    return found
