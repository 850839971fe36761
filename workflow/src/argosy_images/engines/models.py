"""A container, and the engines that can run it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""PATH of images that set none, as in Docker and podman."""

DEFAULT_ENVIRONMENT = {"PATH": DEFAULT_PATH, "LANG": "C.UTF-8", "HOME": "/tmp"}
"""Variables of images that set none; a frozen image has no writable home."""

GUEST_DIR = "/run/argosy"
"""Mounted from a private folder of the host in every container; never part of an image."""

HOST_FILES = ("resolv.conf", "hosts")
"""Files of the host's /etc that a container sees as they are when it starts."""

OWN_ENGINES = ("runc", "crun")
"""Programs that read the same description of a container."""

APPTAINER = "apptainer"
"""The site's own, where it has one."""

ISOLATING_ENGINES = (*OWN_ENGINES, APPTAINER)
"""Their programs see the image, the mounts and no other process, and cannot write to read-only mounts."""

TRACING_PROOT = "proot-ptrace"
UNISOLATED_ENGINES = ("proot", TRACING_PROOT)
"""For hosts without user namespaces: see `proot`. Their programs are ordinary processes of the user and
see the others; Landlock limits the files they reach, where the kernel has it."""

ENGINES = (*ISOLATING_ENGINES, *UNISOLATED_ENGINES)


@dataclass(frozen=True)
class Bind:
    """A folder or file of the host, seen in the container at `target`.

    What runs inside may write to it only where that is said: see `ISOLATING_ENGINES`.
    """

    source: Path
    target: str
    writable: bool = False


@dataclass(frozen=True)
class Container:
    """A command to run in the frozen `root`, which stays unchanged; `engine` is one of `ENGINES`.

    `files` of the host are copied into `GUEST_DIR`.
    `secrets` are texts that lie there by their names, for the program to take away: unlike variables
    they are then nowhere to be seen.
    `held` are descriptors that stay open until the container has ended, whatever becomes of us.
    `patience_s` is how long the command may take to end by itself once it was asked to.
    `as_user`: the command has the ids of this process, or may take them; by default it is root.
    `attached`: it has the input, output and terminal of this process (`container.attach`).
    """

    root: Path
    command: Sequence[str]
    binds: Sequence[Bind] = ()
    files: Sequence[Path] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)
    workdir: str = "/"
    engine: str = "runc"
    held: Sequence[int] = ()
    patience_s: float = 0.0
    as_user: bool = False
    attached: bool = False


@dataclass(frozen=True)
class Outcome:
    """How the command ended: its own exit status, or None when it was killed or never started.

    `failed_to_start`: the container came to nothing, and not because anybody ended it.
    """

    status: int | None
    failed_to_start: bool = False
