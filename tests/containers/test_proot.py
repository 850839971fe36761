"""Containers by proot, as on hosts without user namespaces: visible and protected files."""

import errno
import os
import platform
import random
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from types import ModuleType

import psutil
import pytest
import refused_filters
import traced
from image_programs import contained, runner
from no_namespaces import TRY
from trees import describe_tree

from argosy_common.errors import ArgosyError
from argosy_images import tools
from argosy_images.engines.models import UNISOLATED_ENGINES, Bind, Container, Outcome
from argosy_images.rootfs.freeze import make_frozen
from argosy_images.rootfs.layers import Layer
from argosy_images.store.scratch import sweep
from argosy_images.store.store import Store

pytestmark = pytest.mark.container
PATH = {"PATH": "/usr/bin:/bin"}


@pytest.fixture(scope="module")
def root(base_layer: tuple[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a private copy of a frozen tree, which tests may damage."""
    folder = tmp_path_factory.mktemp("proot")
    subprocess.run(["cp", "-a", base_layer[1] / "diff", folder / "diff"], check=True)
    make_frozen([Layer(folder / "diff")], folder / "root")
    return folder / "root"


@pytest.fixture(scope="module", autouse=True)
def has_proot(project_store: Store) -> None:
    tools.Tools(project_store).fetch_proot(print)
    assert tools.Tools(project_store).find_proot()


@pytest.fixture(params=UNISOLATED_ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def run(
    store: Store, root: Path, engine: str, script: str, **options: object
) -> tuple[Outcome, str]:
    options.setdefault("environment", PATH)
    inside = Container(root, ["/bin/sh", "-c", script], engine=engine, **options)  # type: ignore[arg-type]
    return contained(store, inside)


def test_it_sees_the_image_and_not_the_host(project_store: Store, root: Path, engine: str) -> None:
    script = "id -u; stat -c %i /etc/passwd; ls -di /etc; cat /etc/debian_version; echo 'grüße ✓'; exit 5"
    outcome, output = run(project_store, root, engine, script)
    assert outcome.status == 5
    inodes = [(root / name).stat().st_ino for name in ("etc/passwd", "etc")]
    version = (root / "etc/debian_version").read_text()
    assert output == f"0\n{inodes[0]}\n{inodes[1]} /etc\n{version}grüße ✓\n"


CHANGES = """
echo x >> /etc/passwd; echo x > /new; rm -f /etc/hostname; rm -rf /usr/share; mkdir /usr/folder
mv /etc/passwd /etc/passwd.old; ln -s x /etc/link; truncate -s 0 /etc/group; touch /usr/new
chmod u+w /etc; echo x > /etc/new; cp /bin/true /usr/bin/tac; dd of=/etc/shells </dev/null
perl -e 'truncate("/etc/group", 0)'
"""


def test_nothing_of_the_image_can_be_changed(project_store: Store, root: Path, engine: str) -> None:
    before = describe_tree(root)
    _, output = run(project_store, root, engine, CHANGES)
    assert describe_tree(root) == before, output


ATTRIBUTES = """
chmod 4777 /bin/true; chmod 0 /usr/bin/tac; chmod -R a+rwX /etc; chmod 000 /usr/share/doc
touch -d 1999-01-01 /etc/passwd; touch -h -d 1999-01-01 /bin/sh; chmod 700 /; chmod 711 /usr/lib
perl -e 'my ($path, $name, $value) = ("/etc/passwd", "user.a", "b");
    print "xattr ", syscall(188, $path, $name, $value, 1, 0) == 0 ? "set" : $! + 0, "\n"'
"""


def modes(root: Path) -> dict[str, tuple[int, int, int]]:
    """Return modes, groups and times of all files of a tree."""
    found = {}
    for path in (root, *root.rglob("*")):
        status = path.lstat()
        found[str(path)] = (status.st_mode, status.st_gid, status.st_mtime_ns)
    return found


def test_modes_and_times_of_the_image_stay(project_store: Store, root: Path, engine: str) -> None:
    before = modes(root)
    _, output = run(project_store, root, engine, ATTRIBUTES)
    assert modes(root) == before
    assert f"xattr {errno.EOPNOTSUPP}" in output or platform.machine() != "x86_64"
    assert os.listxattr(root / "etc/passwd") == []
    assert {path.name for path in root.parent.iterdir()} == {"diff", "root"}


CHANGED = """
umask 022; cd /tmp; mkdir d; touch new d/inner; ln -s new link
chmod 600 new; stat -c %a new; chmod 751 ./d/../link; stat -c %a new; chmod 4711 new; stat -c %a new
touch -d @5 new; touch -h -d @6 link; stat -c %Y new link; cp -p new copy; stat -c '%a %Y' copy
cd d; touch -d @7 ../new; chmod 2755 .; stat -c %a . ; chmod u-w inner; stat -c %a inner
perl -e '
    open(my $file, ">", "open"); chmod(0640, $file); utime(8, 9, $file);
    printf "%o %d\n", (stat $file)[2] & 07777, (stat $file)[9];
    print chmod(0700, "inner"), utime(7, 7, "inner"), "\n";
    for my $bad ("missing/x", "nothing") { print chmod(0700, $bad), " ", $! + 0, "\n" }
    open(my $image, "<", "/etc/passwd"); print chmod(0666, $image), " ", $! + 0, "\n"'
chmod 755 /etc/passwd; touch /new; echo 'exit 3' > run; chmod +x run; ./run; echo $?
"""
THEN = f"""600
751
711
5
6
711 5
755
444
640 9
11
0 {errno.ENOENT}
0 {errno.ENOENT}
0 {errno.EROFS}
chmod: changing permissions of '/etc/passwd': Read-only file system
touch: cannot touch '/new': Permission denied
3
"""


def test_modes_and_times_of_own_files_change_and_no_others(
    project_store: Store, root: Path, engine: str
) -> None:
    _, output = run(project_store, root, engine, CHANGED)
    assert output == THEN


def test_mounts_are_what_they_were_to_be(
    project_store: Store, root: Path, engine: str, tmp_path: Path
) -> None:
    for name in ("read only", "writable", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("content\n")
    script = (
        "cat /job/file; echo x > /job/file; echo more >> /workloads/file; cat /workloads/file; "
        f"cat '{tmp_path}/other/file'; echo $LD_LIBRARY_PATH, $LD_PRELOAD; ls -A /dev/shm /tmp"
    )
    outcome, output = run(
        project_store,
        root,
        engine,
        script,
        binds=[
            Bind(tmp_path / "read only", "/job"),
            Bind(tmp_path / "writable", "/workloads", writable=True),
        ],
        environment={**PATH, "LD_LIBRARY_PATH": "/opt/lib dir", "LD_PRELOAD": ""},
    )
    lines = output.splitlines()
    assert outcome.status == 0
    assert lines[0] == "content"
    assert "ermission denied" in lines[1]
    assert lines[2:4] == ["content", "more"]
    assert "No such file" in lines[4]
    assert lines[5:] == ["/opt/lib dir,", "/dev/shm:", "", "/tmp:"]
    assert (tmp_path / "read only/file").read_text() == "content\n"


def test_values_of_variables_are_in_no_argument_list(project_store: Store, root: Path) -> None:
    script = "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; done; echo; echo \"$SECRET\""
    _, output = run(
        project_store, root, "proot", script, environment={**PATH, "SECRET": "nobody-sees\nit"}
    )
    lines = output.splitlines()
    assert lines[-2:] == ["nobody-sees", "it"]
    assert "nobody-sees" not in "\n".join(lines[:-2])


def test_memory_is_shared_within_a_container_and_with_no_other(
    project_store: Store, root: Path, engine: str
) -> None:
    outcome, output = run(
        project_store, root, engine, "echo x > /dev/shm/mine && cat /dev/shm/mine; ls /dev | wc -w"
    )
    assert (outcome.status, output.split()[0]) == (0, "x")
    assert not Path("/dev/shm/mine").exists()


def test_what_a_command_leaves_behind_is_not_waited_for(
    project_store: Store, root: Path, engine: str
) -> None:
    script = "(setsid sleep 3333 &); (sleep 0.3; exit 3) & exit 4"
    outcome, _ = run(project_store, root, engine, script)
    assert outcome.status == 4
    assert not sleepers()


SPAWN = """
import os, threading
kept = []
for _ in range(60):
    children = [os.posix_spawn("/bin/true", ["true"], dict(os.environ)) for _ in range(2)]
    kept.append([bytearray(3000) for _ in range(200)])
    assert not [child for child in children if os.waitpid(child, 0)[1]]
threads = [threading.Thread(target=lambda: kept.append(bytearray(1 << 22))) for _ in range(50)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("all started")
"""


def test_programs_that_start_others_as_make_does_go_on(
    project_store: Store, torch_digest: str, engine: str
) -> None:
    """Without clone3, proot 5.1 confuses the heaps of parent and child, and the parent crashes."""
    inside = Container(
        project_store.root(torch_digest), ["/opt/venv/bin/python3", "-c", SPAWN], engine=engine
    )
    outcome, said = contained(project_store, inside)
    assert (outcome.status, said) == (0, "all started\n")


SLEEPING = ("/bin/sh", "-c", "(setsid sleep 3333 &); sleep 3333 & echo began; wait")


def sleepers() -> list[psutil.Process]:
    """Return the live processes of the tests' containers."""
    return [
        process
        for process in psutil.process_iter(["cmdline", "status"])
        if process.info["cmdline"] == ["sleep", "3333"]
        and process.info["status"] != psutil.STATUS_ZOMBIE
    ]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL])
def test_nothing_is_left_when_the_runner_is_ended(
    project_store: Store, root: Path, number: signal.Signals
) -> None:
    process = subprocess.Popen(
        runner(project_store, root, "proot", SLEEPING), stdout=subprocess.DEVNULL
    )
    until = time.monotonic() + 20
    while len(sleepers()) < 2:
        assert time.monotonic() < until and process.poll() is None
        time.sleep(0.05)
    process.send_signal(number)
    process.wait(timeout=20)
    while found := sleepers():
        assert time.monotonic() < until + 10, found
        time.sleep(0.05)


def seconds_to_begin(command: list[str], until: float) -> float:
    """Return the seconds from a runner's start until its container's program runs."""
    began = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        while len(sleepers()) < 2:
            assert time.monotonic() < began + until and process.poll() is None
            time.sleep(0.01)
        seconds = time.monotonic() - began
        process.terminate()
    return seconds


def test_a_runner_that_is_killed_at_any_moment_leaves_nothing_that_is_not_swept(
    project_store: Store, root: Path, tmp_path: Path, moments: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    command = runner(project_store, root, "proot", SLEEPING)
    before = modes(root)
    seconds, chance = seconds_to_begin(command, 60), random.Random(6)
    began = 0
    for _ in range(moments):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        # Between the start of Python and shortly after the start of the program.
        time.sleep(chance.uniform(0, 1.5 * seconds))
        began += bool(sleepers())
        process.kill()
        process.wait()
        until = time.monotonic() + 20
        while found := [one for one in psutil.process_iter() if is_of(one, root)] + sleepers():
            assert time.monotonic() < until, found
            time.sleep(0.02)
    assert 0 < began < moments
    outcome, output = run(project_store, root, "proot", "echo right")
    assert (outcome.status, output) == (0, "right\n")
    assert modes(root) == before
    # The next job removes the killed runners' folders.
    sweep()
    # Python may leave the empty file of its write test.
    assert not [path for path in tmp_path.iterdir() if path.is_dir() or path.stat().st_size]


def is_of(process: psutil.Process, root: Path) -> bool:
    with suppress(psutil.NoSuchProcess):
        alive = process.status() != psutil.STATUS_ZOMBIE
        return alive and any(str(root) in word for word in process.cmdline())
    return False


def test_where_proot_cannot_trace_it_is_one_line(
    project_store: Store, root: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "bin" / "proot"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\necho 'ptrace: Operation not permitted' >&2\nexit 1\n")
    broken.chmod(0o755)
    path = f"{broken.parent}{os.pathsep}{os.environ['PATH']}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", path)
        with pytest.raises(ArgosyError, match="bin/proot does not run here: ptrace: Operation not"):
            run(project_store, root, "proot", "true")


@pytest.mark.parametrize(
    ("world", "line"),
    [
        (traced, "proot error: ptrace(TRACEME): Operation not permitted"),
        (
            refused_filters,
            "the filter of system calls (seccomp) that proot needs: Operation not permitted",
        ),
    ],
)
def test_what_keeps_it_from_working_is_one_line(
    project_store: Store, root: Path, world: ModuleType, line: str
) -> None:
    program = [sys.executable, "-c", TRY, str(project_store.path), str(root), "proot"]
    assert world.__file__
    done = subprocess.run(
        [sys.executable, world.__file__, *program], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout) == (0, f"{line}\n")
