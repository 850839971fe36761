"""A hostile program tries everything against its host, in a real container of each engine."""

import ctypes
import json
import os
import pty
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from agent_job import RUNTIME
from image_programs import runner
from run_files import run_content

from argosy_images import tools
from argosy_images.engines.models import UNISOLATED_ENGINES, Bind
from argosy_images.store.store import Store

pytestmark = [pytest.mark.container, pytest.mark.udocker]

PROGRAM = Path(__file__).parent / "programs"
ATTEMPT = "7.0"
HARMLESS = {
    # Reaches only the container's own terminal, whose other end is a pipe.
    "push input into the terminal",
    # Enters its own namespace.
    "setns",
}
HARMLESS_IN_NAMESPACES = {
    # Reaches only the container's own processes and files.
    *("io_uring", "seccomp", "userfaultfd", "priority of all", "a terminal"),
}
HARMLESS_BELOW_PROOT = {
    # The other user is the same user.
    *("another user's rights", "a setuid program"),
}


def state(path: Path) -> tuple[Any, ...]:
    found = path.lstat()
    return path.read_bytes(), found.st_mode, found.st_mtime_ns, found.st_nlink


@pytest.fixture
def of_the_user() -> Iterator[dict[str, int]]:
    """Yield the numbers of the user's host objects besides files; check that none has changed."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.shmat.restype = ctypes.c_void_p
    memory, queue = libc.shmget(0, 4096, 0o600), libc.msgget(0, 0o600)
    address = libc.shmat(memory, None, 0)
    ctypes.memmove(address, b"secret!", 7)
    libc.syscall(250, 1, None)
    key = libc.syscall(248, b"user", b"argosy-hostile", b"secret", 6, -3)
    named = libc.syscall(240, b"argosy-hostile", os.O_RDWR | os.O_CREAT, 0o600, None)
    ours, terminal = pty.openpty()
    process = subprocess.Popen(["sleep", "600"], start_new_session=True)
    shared = Path(f"/dev/shm/argosy-{process.pid}")
    shared.write_text("secret")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"\0argosy-{process.pid}")
        listening.listen()
        state = process_state(process.pid)
        name = int(os.ttyname(terminal).rpartition("/")[2])
        try:
            assert min(memory, queue, key, named) >= 0
            numbers = {"process": process.pid, "terminal": name, "memory": memory}
            yield {**numbers, "queue": queue, "key": key}
            assert process_state(process.pid) == state
            assert ctypes.string_at(address, 7) == b"secret!"
        finally:
            process.kill()
            process.wait()
            shared.unlink()
            for descriptor in (ours, terminal, named):
                os.close(descriptor)
            libc.syscall(241, b"argosy-hostile")
            libc.shmctl(memory, 0, None)
            libc.msgctl(queue, 0, None)


def process_state(number: int) -> tuple[object, ...]:
    process = psutil.Process(number)
    return (
        *(process.nice(), process.ionice(), process.cpu_affinity(), process.name()),
        *(process.rlimit(psutil.RLIMIT_NOFILE), os.sched_getscheduler(number)),
        Path(f"/proc/{number}/oom_score_adj").read_text(),
    )


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir()
    run = run_content(spec="s")
    (folder / "run.json").write_text(json.dumps(run))
    for name in ("job.sbatch", "job.json", "provenance.json"):
        (folder / name).write_text("{}")
    (folder / "logs" / ATTEMPT).mkdir(parents=True)
    assert host(folder, "claim.py", "s", str(tmp_path)).returncode == 0
    return folder


def host(run_dir: Path, program: str, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, RUNTIME / program, run_dir, ATTEMPT, *more]
    return subprocess.run(command, capture_output=True, text=True, timeout=20)


def modes(root: Path) -> dict[str, tuple[int, int, int]]:
    """Return modes, groups and times of a tree's top files, which the program tries to change."""
    found = (root, *root.iterdir(), *(root / "etc").iterdir())
    statuses = {str(path): path.lstat() for path in found}
    return {path: (one.st_mode, one.st_gid, one.st_mtime_ns) for path, one in statuses.items()}


def binds_of(run_dir: Path, runtime: Path, workloads: Path) -> list[Bind]:
    """Return the mounts of job.sbatch."""
    writable = [f"records/{ATTEMPT}", f"logs/{ATTEMPT}/ranks"]
    writable += [f"checkpoints/{ATTEMPT}", "output"]
    return [
        Bind(run_dir, "/job"),
        *(Bind(run_dir / name, f"/job/{name}", writable=True) for name in writable),
        Bind(runtime, "/argosy"),
        Bind(workloads, "/workloads"),
    ]


# crun refuses hosts that have control groups of both versions.
WITHOUT_GROUPS = [
    *("unshare", "--user", "--map-root-user", "--mount"),
    *("sh", "-c", 'mount -t tmpfs none /sys/fs/cgroup && exec "$@"', "sh"),
]


def contained(
    store: Store, root: Path, engine: str, binds: list[Bind], command: list[str]
) -> tuple[int, str]:
    """Run a command in a container; return exit status and output."""
    before = WITHOUT_GROUPS if engine == "crun" else []
    done = subprocess.run(
        [*before, *runner(store, root, engine, command, binds)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=120,
    )
    return done.returncode, done.stdout.decode(errors="replace")


@pytest.mark.parametrize("engine", ["runc", "crun", *UNISOLATED_ENGINES])
def test_none_of_its_attempts_reaches_the_host(
    project_store: Store, torch_digest: str, run_dir: Path, of_the_user: dict[str, int], engine: str
) -> None:
    tmp_path = run_dir.parent
    tools.Tools(project_store).fetch_proot(print)
    (tmp_path / "other").mkdir()
    canaries = [
        tmp_path / "other/run.json",
        tmp_path / "home",
        *(tmp_path / "argosy" / name for name in ("verdict.py", "claim.py")),
    ]
    for folder in ("argosy/agent", "workloads"):
        (tmp_path / folder).mkdir(parents=True)
    canaries.append(tmp_path / "workloads/train.py")
    for path in canaries:
        path.write_text("{}")
    host_files = [path for path in run_dir.rglob("*") if path.is_file()]
    before = {path: state(path) for path in (*canaries, *host_files)}
    listed = set((run_dir / "attempts").rglob("*"))
    binds = binds_of(run_dir, tmp_path / "argosy", tmp_path / "workloads")
    # Every image has /data, so the program is mounted there.
    binds.append(Bind(PROGRAM, "/data"))
    command = ["python3", "/data/hostile.py", ATTEMPT, json.dumps(of_the_user), *map(str, canaries)]
    root = project_store.root(torch_digest)
    image = modes(root)
    status, output = contained(project_store, root, engine, binds, command)
    said = output.splitlines()
    assert "attempts" in " ".join(said), said
    worked = {line.removeprefix("WORKED ") for line in said if line.startswith("WORKED ")}
    below_proot = engine in UNISOLATED_ENGINES
    assert worked <= HARMLESS | (HARMLESS_BELOW_PROOT if below_proot else HARMLESS_IN_NAMESPACES)
    assert modes(root) == image
    assert sum(line.startswith(("HELD", "WORKED")) for line in said) >= 90
    assert status != 0
    assert {path: state(path) for path in before} == before
    assert set((run_dir / "attempts").rglob("*")) == listed

    began = time.monotonic()
    judged = host(run_dir, "verdict.py")
    assert time.monotonic() - began < 10
    assert judged.returncode == 1, judged
    verdict = json.loads((run_dir / f"attempts/{ATTEMPT}/verdict.json").read_text())
    assert verdict["state"] == "failed"
    assert not (run_dir / "result.json").exists()
    assert {path: state(path) for path in before} == before
