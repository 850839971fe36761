"""What runc is told of a container: https://github.com/opencontainers/runtime-spec/blob/main/config.md.

runc always runs inside of namespaces that were made for it, in which the user's own id is root's and the
only one. So no container needs a user namespace of its own, and all of it ends with those namespaces.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DEVICES = ("nvidia*", "nvidia-caps", "dri", "kfd", "infiniband", "hfi1*", "cxi*")
"""Accelerators and fast networks, as far as the host has them and lets the user open them."""

SYSTEM_MOUNTS: Sequence[dict[str, Any]] = (
    {"destination": "/proc", "type": "proc", "source": "proc"},
    {
        "destination": "/dev",
        "type": "tmpfs",
        "source": "tmpfs",
        "options": ["nosuid", "mode=755", "size=65536k"],
    },
    {
        "destination": "/dev/pts",
        "type": "devpts",
        "source": "devpts",
        "options": ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"],
    },
    {
        "destination": "/dev/shm",
        "type": "tmpfs",
        "source": "shm",
        "options": ["nosuid", "nodev", "mode=1777"],
    },
    {
        "destination": "/sys",
        "type": "none",
        "source": "/sys",
        "options": ["rbind", "nosuid", "noexec", "nodev", "ro"],
    },
)


@dataclass(frozen=True)
class Mount:
    """A file or folder of this host, seen at `target`; without a source, an empty one in memory."""

    source: Path | None
    target: str
    writable: bool = True
    flags: Sequence[str] = ()
    """More options of mount(8), such as nosuid."""

    def described(self) -> dict[str, Any]:
        """As runc reads it."""
        if self.source is None:
            options = ["mode=1777"]
            return {
                "destination": self.target,
                "type": "tmpfs",
                "source": "tmpfs",
                "options": options,
            }
        return {
            "destination": self.target,
            "type": "none",
            "source": str(self.source),
            "options": ["rbind", *self.flags, "rw" if self.writable else "ro"],
        }


@dataclass(frozen=True)
class Specification:
    """One container.

    Args:
        capabilities: what its root may do beyond what the user may.
        seccomp: a system call filter.
    """

    root: Path
    arguments: Sequence[str]
    environment: Mapping[str, str]
    workdir: str
    mounts: Sequence[Mount]
    writable: bool
    capabilities: Sequence[str] = ()
    seccomp: Mapping[str, Any] = field(default_factory=dict)

    def content(self) -> dict[str, Any]:
        """The content of config.json."""
        sets = ("bounding", "effective", "permitted")
        namespaces = [{"type": kind} for kind in ("pid", "mount", "ipc")]
        return {
            "ociVersion": "1.0.2",
            "process": {
                "terminal": False,
                "user": {"uid": 0, "gid": 0},
                "args": list(self.arguments),
                "env": [f"{name}={value}" for name, value in self.environment.items()],
                "cwd": self.workdir,
                "capabilities": {name: list(self.capabilities) for name in sets},
            },
            "root": {"path": str(self.root), "readonly": not self.writable},
            "mounts": [*SYSTEM_MOUNTS, *(mount.described() for mount in self.mounts)],
            "linux": {
                "namespaces": namespaces,
                **({"seccomp": dict(self.seccomp)} if self.seccomp else {}),
            },
        }


def devices() -> Iterator[Mount]:
    """The host's devices that programs compute with."""
    for pattern in DEVICES:
        for path in sorted(Path("/dev").glob(pattern)):
            yield Mount(path, str(path))


def command(program: Path, folder: Path) -> list[str | Path]:
    """Runs the container whose config.json lies in `folder`, where the program's own state goes as well.

    Args:
        program: runc or crun.
    """
    # A job's control groups are Slurm's; crun alone would want some of its own.
    options = ["--cgroup-manager=disabled"] if program.name == "crun" else []
    return [
        program,
        *options,
        "--root",
        folder / "state",
        "run",
        "--bundle",
        folder,
        f"argosy-{folder.parent.name}",
    ]
