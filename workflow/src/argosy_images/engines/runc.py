"""Runtime specifications for runc: https://github.com/opencontainers/runtime-spec/blob/main/config.md.

runc runs inside namespaces made before it, in which the user's id is mapped to root. So containers need
no user namespace of their own, and all their processes end with those namespaces.
"""

import errno
import os
import platform
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DEVICES = ("nvidia*", "nvidia-caps", "dri", "kfd", "infiniband", "hfi1*", "cxi*")
"""Devices of accelerators and fast networks, as patterns below /dev."""

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
)


MASKED_PATHS = (
    *("/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/sched_debug"),
    *("/proc/scsi", "/proc/timer_list", "/proc/timer_stats", "/sys/firmware", "/sys/fs/selinux"),
)
READONLY_PATHS = (
    *("/proc/asound", "/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"),
)
"""Paths that Docker and podman protect too."""

ARCHITECTURES = {
    "x86_64": ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"],
    "aarch64": ["SCMP_ARCH_AARCH64", "SCMP_ARCH_ARM"],
    "ppc64le": ["SCMP_ARCH_PPC64LE"],
}
"""Architectures of the programs that a machine can run, as in seccomp filters."""

_MODE_OF = {"chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2}
"""Calls that set modes, and the index of their mode argument."""


def no_setuid() -> dict[str, Any]:
    """Return the seccomp filter for runs, which forbids setuid modes.

    On the host a setuid program would give others the user's rights. Kernels before 5.16 slow down filtered
    programs (https://docs.kernel.org/userspace-api/spec_ctrl.html), so they get no filter.
    """
    if [int(part) for part in re.findall(r"\d+", platform.release())[:2]] < [5, 16]:
        return {}
    calls = [
        {
            "names": [name],
            "action": "SCMP_ACT_ERRNO",
            "errnoRet": errno.EPERM,
            "args": [
                {
                    "index": argument,
                    "value": stat.S_ISUID,
                    "valueTwo": stat.S_ISUID,
                    "op": "SCMP_CMP_MASKED_EQ",
                }
            ],
        }
        for name, argument in _MODE_OF.items()
    ]
    return {
        "defaultAction": "SCMP_ACT_ALLOW",
        "architectures": ARCHITECTURES.get(platform.machine(), []),
        "syscalls": calls,
    }


@dataclass(frozen=True)
class Mount:
    """A mount of a host file or folder, or of an empty folder in memory.

    Args:
        source: the host's path; None for a folder in memory.
        flags: further options of mount(8), such as nosuid.
        alone: leave out mounts below the source.
    """

    source: Path | None
    target: str
    writable: bool = True
    flags: Sequence[str] = ()
    alone: bool = False

    def described(self) -> dict[str, Any]:
        """Return the mount in runc's format."""
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
            "options": [
                "bind" if self.alone else "rbind",
                *self.flags,
                "rw" if self.writable else "ro",
            ],
        }


@dataclass(frozen=True)
class Specification:
    """The specification of one container.

    Args:
        capabilities: capabilities of the container's root.
        seccomp: a system call filter.
        shows_root: let proot show the user's ids as root's; runc always does.
        terminal: give the container a terminal, which runc connects to this process's.
    """

    root: Path
    arguments: Sequence[str]
    environment: Mapping[str, str]
    workdir: str
    mounts: Sequence[Mount]
    writable: bool
    capabilities: Sequence[str] = ()
    seccomp: Mapping[str, Any] = field(default_factory=dict)
    shows_root: bool = True
    terminal: bool = False

    def content(self) -> dict[str, Any]:
        """Return the content of config.json."""
        sets = ("bounding", "effective", "permitted")
        namespaces = [{"type": kind} for kind in ("pid", "mount", "ipc")]
        return {
            "ociVersion": "1.0.2",
            "process": {
                "terminal": self.terminal,
                "user": {"uid": 0, "gid": 0},
                "args": list(self.arguments),
                "env": [f"{name}={value}" for name, value in self.environment.items()],
                "cwd": self.workdir,
                "capabilities": {name: list(self.capabilities) for name in sets},
                "noNewPrivileges": True,
            },
            "root": {"path": str(self.root), "readonly": not self.writable},
            "mounts": [
                *SYSTEM_MOUNTS,
                *(mount.described() for mount in (*system_mounts(), *self.mounts)),
            ],
            "linux": {
                "namespaces": namespaces,
                "maskedPaths": list(MASKED_PATHS),
                "readonlyPaths": list(READONLY_PATHS),
                **({"seccomp": dict(self.seccomp)} if self.seccomp else {}),
            },
        }


def system_mounts() -> Iterator[Mount]:
    """Yield read-only mounts of the host's /sys and of each mount below it: engines protect only the first.

    A control group may belong to the user; a program that writes there can end all programs of the group.
    """
    system = Path("/sys")
    yield Mount(system, "/sys", False, mount_flags(system))
    yield from mounts_below(system, "/sys")


def devices() -> Iterator[Mount]:
    """Yield mounts of the host's `DEVICES`."""
    for pattern in DEVICES:
        for path in sorted(Path("/dev").glob(pattern)):
            yield Mount(path, str(path))


def command(program: Path, folder: Path) -> list[str | Path]:
    """Return the command line of runc or crun for the bundle in `folder`, which also gets their state."""
    # The scheduler manages a job's control groups; only crun would create its own.
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


_TABLE = Path("/proc/self/mountinfo")


def mount_flags(source: Path) -> list[str]:
    """Return mount options that forbid setuid programs and devices.

    An unprivileged mount must keep the host's noexec.
    """
    forbids = os.statvfs(source).f_flag & os.ST_NOEXEC
    return ["nosuid", "nodev", *(["noexec"] if forbids else [])]


def mounts_below(source: Path, target: str) -> Iterator[Mount]:
    """Yield read-only copies, below `target`, of all mounts below a host folder."""
    for line in _TABLE.read_text(encoding="utf-8", errors="surrogateescape").splitlines():
        place = Path(_unescaped(line.split()[4]))
        # Other users' FUSE mounts cannot be accessed.
        if source in place.parents and os.access(place, os.F_OK):
            inner = f"{target}/{place.relative_to(source)}"
            yield Mount(place, inner, False, mount_flags(place))


def _unescaped(path: str) -> str:
    """Decode a path of mountinfo, which writes white space as \\040."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), path)
