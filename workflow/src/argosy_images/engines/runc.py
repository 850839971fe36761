"""The description of a container for runc: https://github.com/opencontainers/runtime-spec/blob/main/config.md.

runc always runs inside of namespaces that were made for it, in which the user's own id is root's and the
only one. So no container needs a user namespace of its own, and all of it ends with those namespaces.
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
)


MASKED_PATHS = (
    *("/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/sched_debug"),
    *("/proc/scsi", "/proc/timer_list", "/proc/timer_stats", "/sys/firmware", "/sys/fs/selinux"),
)
READONLY_PATHS = (
    *("/proc/asound", "/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"),
)
"""Paths that Docker and podman also keep from containers, if the host has them."""

ARCHITECTURES = {
    "x86_64": ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"],
    "aarch64": ["SCMP_ARCH_AARCH64", "SCMP_ARCH_ARM"],
    "ppc64le": ["SCMP_ARCH_PPC64LE"],
}
"""Architectures whose programs a machine runs, as system call filters name them."""

_MODE_OF = {"chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2}
"""Calls that set modes to the argument that has the mode."""


def no_setuid() -> dict[str, Any]:
    """Return the filter of system calls for runs: no program becomes one that changes its user.

    On the host it would belong to the user, whose rights others would have by it. All else is allowed, as
    outside. Kernels before 5.16 make programs slower below any filter
    (https://docs.kernel.org/userspace-api/spec_ctrl.html): on those there is none.
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
    """A file or folder of this host, seen at `target`; without a source, an empty one in memory.

    `flags` are more options of mount(8), such as nosuid. `alone`: without what is mounted below the source.
    """

    source: Path | None
    target: str
    writable: bool = True
    flags: Sequence[str] = ()
    alone: bool = False

    def described(self) -> dict[str, Any]:
        """Return the mount as runc reads it."""
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
    """One container.

    Args:
        capabilities: what its root may do beyond what the user may.
        seccomp: a system call filter.
        shows_root: whether proot shows the user's ids as root's; runc always does.
        terminal: whether it has a terminal of its own, which runc joins to ours.
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
                *_sys_mounts(),
                *(mount.described() for mount in self.mounts),
            ],
            "linux": {
                "namespaces": namespaces,
                "maskedPaths": list(MASKED_PATHS),
                "readonlyPaths": list(READONLY_PATHS),
                **({"seccomp": dict(self.seccomp)} if self.seccomp else {}),
            },
        }


def _sys_mounts() -> Iterator[dict[str, Any]]:
    """Yield the host's /sys and the mounts below it: runc makes the uppermost alone read-only.

    Control groups may be the user's own, and whoever writes there can end all programs in them.
    """
    options = ["rbind", "nosuid", "noexec", "nodev", "ro"]
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        target = line.split()[4]
        if target == "/sys" or (target.startswith("/sys/") and os.access(target, os.F_OK)):
            yield {"destination": target, "type": "none", "source": target, "options": options}


def devices() -> Iterator[Mount]:
    """Yield the host's devices that programs compute with."""
    for pattern in DEVICES:
        for path in sorted(Path("/dev").glob(pattern)):
            yield Mount(path, str(path))


def command(program: Path, folder: Path) -> list[str | Path]:
    """Return the command that runs the container of `folder`, where the program's state goes as well.

    Args:
        program: runc or crun.
    """
    # A job's control groups are its scheduler's; crun alone would want some of its own.
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
    """Return the options of a folder's mount: no setuid programs, no devices.

    Where the host forbids to run programs from there, an unprivileged mount has to forbid it too.
    """
    forbids = os.statvfs(source).f_flag & os.ST_NOEXEC
    return ["nosuid", "nodev", *(["noexec"] if forbids else [])]


def mounts_below(source: Path, target: str) -> Iterator[Mount]:
    """Yield what is mounted below a folder of the host, read-only, as seen below `target`."""
    for line in _TABLE.read_text(encoding="utf-8", errors="surrogateescape").splitlines():
        place = Path(_unescaped(line.split()[4]))
        if source in place.parents and place.is_dir():
            inner = f"{target}/{place.relative_to(source)}"
            yield Mount(place, inner, False, mount_flags(place))


def _unescaped(path: str) -> str:
    """Return a path of the table, where white space stands as \\040."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), path)
