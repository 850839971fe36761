"""A hostile rank beside a real agent in a real container gets no secrets."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from agent_job import RUNTIME, Job, jobs

from argosy_images.store.store import Store

pytestmark = [pytest.mark.container, pytest.mark.udocker]

# The program does not contain the token itself.
HOSTILE = r"""
import ctypes, glob, json, os
import argosy_steps

TOKEN = b"boj-eht-fo-terces"[::-1]
PTRACE_ATTACH, PTRACE_DETACH = 16, 17
libc = ctypes.CDLL(None, use_errno=True)
found, tried = [], []

def look(path, whole=True):
    tried.append(path)
    try:
        with open(path, "rb") as file:
            if TOKEN in file.read(1 << 20):
                found.append(path)
    except OSError:
        pass

def memory(pid):
    tried.append(f"memory of {pid}")
    try:
        with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as mem:
            for line in maps:
                begin, end = (int(each, 16) for each in line.split()[0].split("-"))
                try:
                    mem.seek(begin)
                    if TOKEN in mem.read(end - begin):
                        found.append(f"memory of {pid}")
                except (OSError, ValueError, OverflowError):
                    continue
    except OSError:
        return

pids = [name for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]
for pid in pids:
    look(f"/proc/{pid}/environ")
    look(f"/proc/{pid}/cmdline")
    memory(pid)
    for descriptor in glob.glob(f"/proc/{pid}/fd/*"):
        if os.path.isfile(descriptor):
            look(descriptor)
    is_agent = open(f"/proc/{pid}/cmdline").read().startswith("python3\0/argosy/agent")
    if is_agent and libc.ptrace(PTRACE_ATTACH, int(pid), 0, 0) == 0:
        found.append(f"attached to the agent, {pid}")
        os.waitpid(int(pid), 0)
        libc.ptrace(PTRACE_DETACH, int(pid), 0, 0)
for folder, _, names in os.walk("/run/argosy"):
    for name in names:
        look(os.path.join(folder, name))
for name in ("/proc/self/environ", "/tmp", "/dev/shm"):
    look(name)

writable = []
for line in open("/proc/self/mountinfo"):
    path = line.split()[4]
    if path.startswith(("/sys", "/proc/sys", "/proc/irq")) and not os.statvfs(path).f_flag & os.ST_RDONLY:
        writable.append(path)
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
keys = open("/proc/keys").read() if os.path.exists("/proc/keys") else ""
print("SEEN", json.dumps({
    "found": found, "tried": len(tried), "processes": len(pids), "writable": writable, "keys": keys,
    "no_new_privileges": status["NoNewPrivs"].strip(), "capabilities": status["CapBnd"].strip(),
}))
with argosy_steps.Recorder().step(samples=1):
    pass
"""


def seen_by(program: str, folder: Path, store: Store, digest: str) -> dict[str, object]:
    """Run the program as the only rank of a job in a container; return its report."""
    with jobs(folder) as make:
        job: Job = make(["python3", "/job/hostile.py"], nodes=1)
        (folder / "hostile.py").write_text(program)
        command = [sys.executable, "-m", "argosy_images.run", "--digest", digest]
        command += ["--bind-writable", f"{folder}:/job", "--bind", f"{RUNTIME}:/argosy"]
        command += ["--log-dir", str(job.logs), "--engine", "runc"]
        done = subprocess.run(
            [*command, "--", "python3", "/argosy/agent"],
            env={**job.environment(0), "ARGOSY_RUN_DIR": "/job", "ARGOSY_STORE": str(store.path)},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        [line] = [each for each in done.stdout.splitlines() if each.startswith("[0] SEEN ")]
        found = json.loads(line.partition("SEEN ")[2])
        assert isinstance(found, dict)
        return found


def test_a_rank_finds_no_token_and_can_change_nothing_of_the_machine(
    project_store: Store, torch_digest: str, tmp_path: Path
) -> None:
    """A program that can write to a control group can end all programs in it."""
    seen = seen_by(HOSTILE, tmp_path, project_store, torch_digest)
    assert seen["found"] == []
    # The first process, the agent and its guard.
    assert seen["processes"] == 3
    assert isinstance(seen["tried"], int)
    assert seen["tried"] > 10
    assert seen["writable"] == []
    assert seen["keys"] == ""
    assert seen["no_new_privileges"] == "1"
    assert seen["capabilities"] == "0000000000000000"
