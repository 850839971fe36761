"""The access of a confined program, and the end of its child processes."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from argosy_images.engines import landlock
from argosy_images.engines.confined import Confinement, command

PYTHON = str(Path(sys.executable).resolve())
SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/etc")


def confined(folder: Path, *program: str, writable: tuple[Path, ...] = ()) -> list[str | Path]:
    """Return the command line of a host program that may write only to these paths."""
    description = folder / "confined.json"
    description.unlink(missing_ok=True)
    Confinement(
        command=program,
        environment={"PATH": os.defpath},
        readable=[*SYSTEM, "/proc"],
        writable=["/dev/null", *map(str, writable)],
    ).write(description)
    return command(description)


def shell(folder: Path, script: str, *writable: Path) -> tuple[int, str]:
    done = subprocess.run(
        confined(folder, "/bin/sh", "-c", script, writable=writable),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.returncode, done.stdout + done.stderr


def test_this_kernel_has_what_the_tests_need() -> None:
    """The tests below need Landlock, so a test machine needs Linux 5.13."""
    assert landlock.version() >= 1


def test_a_program_reaches_what_it_is_given_and_nothing_else(tmp_path: Path) -> None:
    given, other = tmp_path / "given", tmp_path / "other"
    for place in (given, other):
        place.mkdir()
        (place / "file").write_text("content\n")
    tries = [
        f"cat {other}/file",
        f"echo x > {other}/new",
        f"echo x >> {other}/file",
        f"rm {other}/file",
        f"mkdir {other}/folder",
        f"ln -s x {other}/link",
        f"mv {other}/file {given}/taken",
        f"ln {other}/file {given}/taken",
        f"truncate -s 0 {other}/file",
        f"{PYTHON} -ISc \"import os; os.truncate('{other}/file', 0)\"",
        f"cat /proc/{os.getpid()}/environ",
        f"cat /proc/{os.getpid()}/root{other}/file",
        "echo x > /usr/new",
    ]
    for attempt in tries:
        status, output = shell(tmp_path, attempt, given)
        assert status != 0, (attempt, output)
    assert [path.name for path in other.iterdir()] == ["file"]
    assert (other / "file").read_text() == "content\n"
    status, output = shell(tmp_path, f"echo more >> {given}/file && cat {given}/file", given)
    assert (status, output) == (0, "content\nmore\n")


OTHERS = """
import os, resource, signal, subprocess, sys
other = int(sys.argv[1])
own = subprocess.Popen(["/bin/sleep", "60"], start_new_session=True)
def tried(call):
    try:
        call()
        return "done"
    except OSError as problem:
        return os.strerror(problem.errno)
for pid in (own.pid, other, 4000000):
    print(*(tried(call) for call in (
        lambda: resource.prlimit(pid, resource.RLIMIT_NOFILE, (64, 64)),
        lambda: os.setpriority(os.PRIO_PROCESS, pid, 19),
        lambda: os.sched_setaffinity(pid, os.sched_getaffinity(0)),
        lambda: os.sched_setscheduler(pid, os.SCHED_BATCH, os.sched_param(0)),
        lambda: os.kill(pid, 0),
    )), sep=", ")
os.sched_setaffinity(0, os.sched_getaffinity(0)); os.nice(1); resource.getrlimit(resource.RLIMIT_CPU)
print(tried(lambda: os.killpg(other, 9)), tried(lambda: os.kill(-1, 0)), sep=", ")
print(*(tried(lambda: os.setpriority(which, 0, 19)) for which in (os.PRIO_USER, os.PRIO_PGRP)), sep=", ")
os.killpg(own.pid, signal.SIGTERM)
print(own.wait())
"""
EARLIER = """
import sys
from argosy_images.engines import confined, landlock
landlock.version = lambda: 5
confined.main(sys.argv[1], int(sys.argv[2]))
"""


@pytest.mark.parametrize("earlier", [False, True], ids=["this kernel", "Linux before 6.12"])
def test_what_is_done_to_processes_is_done_to_those_of_the_container(
    tmp_path: Path, earlier: bool
) -> None:
    other = subprocess.Popen(["sleep", "60"], start_new_session=True)
    started = confined(tmp_path, PYTHON, "-I", "-S", "-c", OTHERS, str(other.pid))
    if earlier:
        started = [sys.executable, "-c", EARLIER, *started[-2:]]
    try:
        done = subprocess.run(started, capture_output=True, text=True, timeout=30)
        assert done.stderr == ""
        refused, missing = "Operation not permitted", "No such process"
        assert done.stdout.splitlines() == [
            ", ".join(["done"] * 5),
            ", ".join([refused] * 5),
            ", ".join([missing] * 5),
            f"{refused}, {refused if earlier else 'done'}",
            f"{refused}, {refused}",
            "-15",
        ]
        assert other.poll() is None
        assert psutil.Process(other.pid).nice() == psutil.Process().nice()
    finally:
        other.kill()
        other.wait()


ODD_CHANGES = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
file = os.open(sys.argv[1], os.O_RDONLY | os.O_CREAT, 0o600)
huge, far = (ctypes.c_int64 * 4)(0, 1 << 62, 0, 1 << 62), ctypes.c_void_p(1 << 40)
path = sys.argv[1].encode()
def tried(call, *arguments):
    print(getattr(libc, call)(*arguments) and os.strerror(ctypes.get_errno()))
tried("utimes", path, huge)
tried("futimens", file, huge)
tried("futimens", file, far)
tried("chmod", far, 0o777)
tried("chmod", b"/" + b"x" * 5000, 0o777)
tried("chmod", b"", 0o777)
tried("fchmod", 4711, 0o777)
tried("fchmod", -1, 0o777)
tried("kill", os.getpid(), 4711)
tried("fchmod", file, 0o104777)
print(oct(os.fstat(file).st_mode))
"""


def test_odd_changes_of_files_are_answered_as_the_kernel_does(tmp_path: Path) -> None:
    path = tmp_path / "file"
    program = (PYTHON, "-I", "-S", "-c", ODD_CHANGES, str(path))
    here = subprocess.run(program, capture_output=True, text=True, timeout=30)
    path.unlink()
    # The judge treats the first process as proot.
    wrapped = ("/bin/sh", "-c", '"$@"; exit $?', "sh", *program)
    confined_program = confined(tmp_path, *wrapped, writable=(tmp_path,))
    done = subprocess.run(confined_program, capture_output=True, text=True, timeout=30)
    assert done.stderr == ""
    # The only difference: no program becomes setuid.
    assert done.stdout == here.stdout.replace("0o104777", "0o100777")


STATX = """
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
buffer = ctypes.create_string_buffer(256)
done = libc.syscall(int(sys.argv[1]), -100, b"/", 0, 0xFFF, buffer)
print(done, ctypes.get_errno())
"""


def test_calls_that_old_releases_of_proot_do_not_know_are_answered_as_missing(
    tmp_path: Path,
) -> None:
    number = {"x86_64": "332", "aarch64": "291"}[os.uname().machine]
    program = (PYTHON, "-I", "-S", "-c", STATX, number)
    here = subprocess.run(program, capture_output=True, text=True, check=True)
    assert here.stdout == "0 0\n"
    done = subprocess.run(
        confined(tmp_path, *program),
        capture_output=True,
        text=True,
    )
    assert done.stdout == "-1 38\n", done.stderr
    # The C library falls back to other calls: stat(1) still works.
    assert shell(tmp_path, "stat -c %F /etc/passwd") == (0, "regular file\n")


@pytest.mark.parametrize(
    ("script", "status"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137), ("kill $$", 143)]
)
def test_the_status_is_the_commands(tmp_path: Path, script: str, status: int) -> None:
    assert shell(tmp_path, script)[0] == status


def test_a_command_that_is_not_there_is_said(tmp_path: Path) -> None:
    done = subprocess.run(confined(tmp_path, "/usr/bin/not-there"), capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (
        127,
        "/usr/bin/not-there: No such file or directory\n",
    )


LEAVING = "(setsid sleep 300 & echo $! >> {0}); (sleep 300 & echo $! >> {0}); echo {1} >> {0}"


def left(pids: Path) -> list[int]:
    return [int(line) for line in pids.read_text().split() if line.isdigit() and is_alive(line)]


def is_alive(number: str) -> bool:
    try:
        return psutil.Process(int(number)).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_until(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.parametrize(("then", "status"), [("", 0), ("; echo 5 >&9; sleep 300", 5)])
def test_what_a_command_leaves_behind_ends_with_it_or_with_the_status_that_it_reports(
    tmp_path: Path, then: str, status: int
) -> None:
    pids = tmp_path / "pids"
    assert shell(tmp_path, LEAVING.format(pids, "done") + then, tmp_path)[0] == status
    assert len(pids.read_text().split()) == 3
    assert not left(pids)


STARTER = """
import subprocess, sys
from pathlib import Path
from argosy_images.engines.confined import command
subprocess.run(command(Path(sys.argv[1])))
"""


def test_a_status_that_is_none_is_a_failure(tmp_path: Path) -> None:
    assert shell(tmp_path, "echo all is well >&9; sleep 300")[0] == 127


def test_nothing_is_left_when_the_one_that_started_it_is_killed(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    script = LEAVING.format(pids, "began") + "; sleep 300"
    confined(tmp_path, "/bin/sh", "-c", script, writable=(tmp_path,))
    starter = subprocess.Popen([sys.executable, "-c", STARTER, tmp_path / "confined.json"])
    wait_until(lambda: pids.exists() and "began" in pids.read_text())
    assert len(left(pids)) == 2
    starter.send_signal(signal.SIGKILL)
    starter.wait()
    wait_until(lambda: not left(pids))


def test_what_a_program_is_told_is_for_the_user_alone(tmp_path: Path) -> None:
    confined(tmp_path, "/bin/true")
    assert (tmp_path / "confined.json").stat().st_mode & 0o077 == 0
    assert json.loads((tmp_path / "confined.json").read_text())["command"] == ["/bin/true"]
