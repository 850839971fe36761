# ruff: noqa: PTH104, PTH105, PTH110, PTH112, PTH115, PTH207, PTH211
"""A training program that tries to get at its host.

Prints `HELD name` or `WORKED name` for each attempt."""

import ctypes
import fcntl
import glob
import os
import shutil
import signal
import socket
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path

ATTEMPT, CANARIES = sys.argv[1], sys.argv[2:]
NEXT = ATTEMPT.rpartition(".")[0] + ".1"
LIBC = ctypes.CDLL(None, use_errno=True)
JOB = Path("/job")
ATTEMPTS: dict[str, Callable[[], object]] = {}


def call(name: str, *arguments: object) -> None:
    if getattr(LIBC, name)(*arguments) < 0:
        raise OSError(ctypes.get_errno(), name)


def write(path: str | Path) -> None:
    with Path(path).open("a") as file:
        file.write("hostile")


def mount(source: bytes, target: bytes, kind: bytes, flags: int) -> None:
    call("mount", source, target, kind, ctypes.c_ulong(flags), b"")


def as_root_of_a_namespace(then: Callable[[], object]) -> None:
    """In a child, so that this process stays where it is."""
    child = os.fork()
    if child == 0:
        try:
            call("unshare", 0x10000000 | 0x20000)
            then()
            os._exit(0)
        except BaseException:
            os._exit(1)
    if os.waitpid(child, 0)[1]:
        raise OSError("refused")


def through_proc() -> None:
    """Look for a process whose root is the host's."""
    for root in glob.glob("/proc/[0-9]*/root"):
        for canary in CANARIES:
            write(f"{root}{canary}")
            return


def through_descriptors() -> None:
    for link in glob.glob("/proc/[0-9]*/fd/*"):
        try:
            is_folder = os.path.isdir(link) and not os.readlink(link).startswith("/proc")
        except OSError:
            continue
        for canary in CANARIES if is_folder else ():
            if os.path.exists(f"{link}/../../../../../..{canary}"):
                write(f"{link}/../../../../../..{canary}")
                return
    raise OSError("none leads out")


HOST_FILES = [
    *("run.json", "job.sbatch", "job.json", "provenance.json", "result.json", "attempt"),
    *(f"attempts/{ATTEMPT}/{name}" for name in ("verdict.json", "claim.json", "warning")),
    *(f"attempts/{ATTEMPT}/{name}" for name in ("not-started.json", "time-limit", "launched")),
    *(f"logs/{ATTEMPT}/{name}" for name in ("job.log", "node-0.log")),
]
for name in HOST_FILES:
    ATTEMPTS[f"write {name}"] = lambda name=name: write(JOB / name)
for name in ("run.json", "job.sbatch", f"attempts/{ATTEMPT}/claim.json"):
    ATTEMPTS[f"remove {name}"] = lambda name=name: (JOB / name).unlink()
    ATTEMPTS[f"replace {name}"] = lambda name=name: os.replace(write_own(), JOB / name)
for name in ("attempts", "records", "logs", "checkpoints"):
    ATTEMPTS[f"make {name} of the next attempt"] = lambda name=name: (JOB / name / NEXT).mkdir()
    ATTEMPTS[f"swap {name} for a link"] = lambda name=name: (
        os.rename(JOB / name, JOB / f"{name}-old"),
        os.symlink("/tmp", JOB / name),
    )
for name in (f"records/{ATTEMPT}", f"logs/{ATTEMPT}/ranks", "output"):
    ATTEMPTS[f"swap the mount {name}"] = lambda name=name: os.rename(
        JOB / name, JOB / f"{name}-old"
    )
for path in ("/argosy/verdict.py", "/argosy/claim.py", "/argosy/agent/hostile.py"):
    ATTEMPTS[f"write {path}"] = lambda path=path: write(path)
for path in ("/workloads/train.py", "/workloads/hostile.py", "/run/argosy/driver/libcuda.so"):
    ATTEMPTS[f"write {path}"] = lambda path=path: write(path)
for target in ("/job", "/argosy", "/workloads"):
    ATTEMPTS[f"remount {target}"] = lambda target=target: (
        mount(b"none", target.encode(), b"", 32 | 4096),
        write(f"{target}/hostile"),
    )
    ATTEMPTS[f"remount {target} in a namespace"] = lambda target=target: as_root_of_a_namespace(
        lambda: (mount(b"none", target.encode(), b"", 32 | 4096), write(f"{target}/hostile"))
    )
    ATTEMPTS[f"unmount {target} in a namespace"] = lambda target=target: as_root_of_a_namespace(
        lambda: (call("umount2", target.encode(), 2), write(f"{target}/hostile"))
    )
for path in (
    *("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/sys/kernel/uevent_helper"),
    *("/proc/sys/kernel/modprobe", "/proc/sys/vm/drop_caches", "/sys/fs/cgroup/release_agent"),
    *("/dev/mem", "/dev/kmem", "/dev/kmsg", "/dev/port", "/dev/sda", "/dev/vda"),
):
    ATTEMPTS[f"write {path}"] = lambda path=path: write_existing(path)


def write_existing(path: str) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    os.write(descriptor, b"x")


def write_own() -> Path:
    own = JOB / "output/own"
    own.write_text("hostile")
    return own


def make_device() -> None:
    os.mknod("/tmp/mem", 0o600 | 0o020000, os.makedev(1, 1))
    os.open("/tmp/mem", os.O_RDONLY)


ATTEMPTS |= {
    "canaries by their paths": lambda: [write_existing(path) for path in CANARIES],
    "/proc/*/root": through_proc,
    "/proc/*/fd": through_descriptors,
    "mount": lambda: mount(b"none", b"/tmp", b"tmpfs", 0),
    "pivot_root": lambda: call("syscall", 155, b"/tmp", b"/tmp"),
    "a device": make_device,
    "an open file by its handle": lambda: call("open_by_handle_at", -100, b"\0" * 16, 0),
    "push input into the terminal": lambda: [
        fcntl.ioctl(0, termios.TIOCSTI, bytes([each])) for each in b"touch /tmp/hostile\n"
    ],
    "setns": lambda: call("setns", os.open("/proc/1/ns/mnt", os.O_RDONLY), 0),
    "a hard link to a host's file": lambda: os.link(JOB / "run.json", JOB / "output/linked"),
    "a hard link to the runtime": lambda: os.link("/argosy/verdict.py", JOB / "output/linked2"),
    "a host's socket": lambda: socket.socket(socket.AF_UNIX).connect("/run/docker.sock"),
    "another user's rights": lambda: os.setuid(12345),
    "a setuid program": lambda: subprocess.run(["su", "-c", "true"], check=True, timeout=5),
}


def plant() -> None:
    """Leave traps wherever it may write: links out, FIFOs, endless and hostile JSON."""
    records, ranks = JOB / "records" / ATTEMPT, JOB / "logs" / ATTEMPT / "ranks"
    for number, canary in enumerate(CANARIES):
        for name in ("verdict.json", "claim.json", "warning", "launched", "not-started.json"):
            trap = records / f"{name}.{number}.tmp"
            trap.symlink_to(canary)
        os.symlink(canary, ranks / f"rank-{number}.log")
    for name in ("verdict.json", "claim.json", "not-started.json"):
        (records / name).symlink_to(CANARIES[0])
    (records / "result.json").write_text('{"schema_version": 2, "state": "completed"}')
    os.mkfifo(records / "node-0.json")
    os.mkfifo(JOB / "checkpoints" / ATTEMPT / "checkpoint.json")
    for name in ("rank-0.steps", "rank-0.jsonl"):
        os.symlink("/dev/zero", records / name)
    # Takes the place of what says how the command ended.
    shutil.rmtree("/run/argosy/status", ignore_errors=True)
    os.mkfifo("/run/argosy/status")


for name, attempt in ATTEMPTS.items():
    signal.alarm(20)
    try:
        attempt()
        print("WORKED", name, flush=True)
    except (OSError, subprocess.SubprocessError, AttributeError):
        print("HELD", name, flush=True)
signal.alarm(0)
plant()
print(len(ATTEMPTS), "attempts", flush=True)
os.kill(os.getpid(), signal.SIGKILL)
