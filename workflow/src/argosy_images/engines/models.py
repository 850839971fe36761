"""A container, and the engines that can run it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Default PATH, as in Docker and podman."""

DEFAULT_ENVIRONMENT = {"PATH": DEFAULT_PATH, "LANG": "C.UTF-8", "HOME": "/tmp"}
"""Default variables of images. A frozen image has no writable home."""

GUEST_DIR = "/run/argosy"
"""Mount of a private host folder in every container; never part of an image."""

HOST_FILES = ("resolv.conf", "hosts")
"""Files of the host's /etc that are copied into each container at its start."""

OWN_ENGINES = ("runc", "crun")
"""Engines that read an OCI runtime specification."""

APPTAINER = "apptainer"
"""The host's apptainer or singularity."""

ISOLATING_ENGINES = (*OWN_ENGINES, APPTAINER)
"""Engines whose programs see only the image, the mounts and their own processes."""

TRACING_PROOT = "proot-ptrace"
UNISOLATED_ENGINES = ("proot", TRACING_PROOT)
"""Engines for hosts without user namespaces. Their programs are ordinary processes and see the user's
other processes; Landlock limits their access to files if the kernel has it."""

ENGINES = (*ISOLATING_ENGINES, *UNISOLATED_ENGINES)


@dataclass(frozen=True)
class Bind:
    """A folder or file of the host, mounted at `target`; proot without Landlock ignores `writable`."""

    source: Path
    target: str
    writable: bool = False


@dataclass(frozen=True)
class Container:
    """A command to run in the frozen tree `root`, which is read-only.

    Args:
        files: host files to copy into `GUEST_DIR`.
        secrets: texts by the name of their file in `GUEST_DIR`; the program reads and deletes the files.
        engine: one of `ENGINES`.
        held: descriptors that stay open until the container ends, even if this process is killed.
        patience_s: seconds that the command may take to end after SIGTERM.
        as_user: the command has this process's ids, or can take them; by default it is root.
        attached: use the terminal, input and output of this process (`container.attach`).
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
    """The result of a container.

    Args:
        status: the command's exit status; None if it was killed or never started.
        failed_to_start: the container did not start, although no signal ended it.
    """

    status: int | None
    failed_to_start: bool = False
