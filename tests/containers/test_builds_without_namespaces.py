"""Builds by proot, without user namespaces, give the same images as builds with namespaces."""

import os
import platform
import random
import re
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest
from no_namespaces import forbidding, without_namespaces
from trees import describe_tree

from argosy_common.disk import remove_tree
from argosy_common.errors import ArgosyError
from argosy_images.builder import builder
from argosy_images.builder.builder import build_image
from argosy_images.engines import proot
from argosy_images.store.lockfile import ImageLock
from argosy_images.store.store import Store

pytestmark = [pytest.mark.container, pytest.mark.timeout(900)]

BUILD = [sys.executable, "-m", "argosy.cli", "image", "build", "image"]

TEXT = """FROM docker.io/library/debian:bookworm-slim AS other
RUN mkdir /made && echo made > /made/a && ln /made/a /made/b
FROM docker.io/library/debian:bookworm-slim
RUN apt-get update && apt-get install --yes --no-install-recommends openssh-client dbus \\
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/log/* /etc/machine-id \\
    /var/lib/dbus/machine-id /var/cache/ldconfig/aux-cache
RUN useradd --create-home ann && echo 1 > /home/ann/file && chown -R ann:games /home/ann \\
    && chmod 2750 /home/ann && chmod 640 /home/ann/file && ln /home/ann/file /home/ann/again \\
    && mkdir -m 1777 /shared && cp /bin/ls /usr/local/bin/as-owner && chmod u+s /usr/local/bin/as-owner \\
    && mknod /device c 1 3 && mknod -m 600 /pipe p && ln -s ../nowhere /link
COPY --from=other /made /made
COPY --chmod=711 --chown=ann file /copied/
RUN --mount=type=tmpfs,target=/scratch --mount=type=cache,target=/root/kept \\
    --mount=type=bind,from=other,source=/made,target=/seen \\
    echo x > /scratch/x && cp /seen/a /from-seen && test -c /dev/null && echo > /dev/null \\
    && echo 10.1.2.3 licence >> /etc/hosts && echo > /etc/resolv.conf && grep licence /etc/hosts \\
    && rm -rf /usr/share/doc /home/ann/again && touch /usr/share/doc && id -u > /who
WORKDIR /srv/here
RUN ls > listed && stat -c '%a %F' /etc/passwd >> listed && mv listed ..
"""

# Files that contain times.
_CHANGING = re.compile(r"(^|/)(shadow-?|gshadow-?|passwd-|group-|ld\.so\.cache|.*\.pyc)$")


def build(project: Path, store: Store, *, namespaces: bool) -> tuple[Path, str]:
    """Build the image; return its frozen tree and the messages."""
    environment = {**os.environ, "ARGOSY_STORE": str(store.path)}
    if namespaces:
        done = subprocess.run(BUILD, cwd=project, env=environment, capture_output=True, text=True)
    else:
        done = without_namespaces(*BUILD, cwd=project, environment=environment)
    assert done.returncode == 0, (
        done.stderr + (project / "logs/images/image.log").read_text()[-3000:]
    )
    lock = ImageLock.read(project / "resources/images/image/image.lock")
    return store.root(lock.digest), done.stderr


@pytest.fixture
def own_project(tmp_path: Path) -> Path:
    folder = tmp_path / "project" / "containers" / "image"
    folder.mkdir(parents=True)
    (folder / "file").write_text("copied\n")
    (folder / "Containerfile").write_text(TEXT)
    return tmp_path / "project"


def without_times(tree: Mapping[str, Any]) -> dict[str, Any]:
    return {
        path: (mode, twin, "" if _CHANGING.search(path) else content)
        for path, (mode, _, twin, content) in tree.items()
    }


def forget_builds(store: Store) -> None:
    """Remove all layers and images except the base."""
    for path in [*(store.path / "layers").iterdir(), *(store.path / "roots").iterdir()]:
        if path.is_dir() and not path.is_symlink():
            remove_tree(path)


@pytest.mark.thorough
def test_the_same_files_come_out(with_proot: Store, own_project: Path) -> None:
    root, _ = build(own_project, with_proot, namespaces=True)
    expected = without_times(describe_tree(root))
    forget_builds(with_proot)
    root, said = build(own_project, with_proot, namespaces=False)
    assert "proot runs the steps, and files are copied and compared" in said
    found = without_times(describe_tree(root))
    assert set(found) == set(expected)
    assert {path: found[path] for path in found if found[path] != expected[path]} == {}
    assert (root / "who").read_text() == "0\n"
    assert not (root / "device").exists()
    # Either method continues the build of the other.
    containerfile = own_project / "containers/image/Containerfile"
    containerfile.write_text(TEXT + "RUN echo more > /more\n")
    root, said = build(own_project, with_proot, namespaces=True)
    assert "[10/10]" in said and "[9/10]" not in said, said
    containerfile.write_text(TEXT + "RUN echo more > /more\nRUN cat /more > /again\n")
    root, said = build(own_project, with_proot, namespaces=False)
    assert (root / "again").read_text() == "more\n"


HOSTILE = """
sub untraced {
    my ($then) = @_; my $arguments = pack "Q11", 0x800000, 0, 0, 0, 17;
    my $child = syscall 435, $arguments, 88;
    if ($child == 0) { $then->(); syscall 231, 0 }
    waitpid $child, 0 if $child > 0;
}
my ($path, $user) = @ARGV; my $list = pack "LSSlSSlSSlSSl", 2, 1, 6, -1, 4, 6, -1, 16, 6, -1, 32, 6, -1;
my ($times, $name, $value) = (pack("q4", 1, 0, 1, 0), "system.posix_acl_access", "x");
my $tree = syscall 428, -100, $path, 0; chmod 0666, "/proc/self/fd/$tree"; chmod 0666, $path;
syscall 452, -100, $path, 0666, 0;
untraced(sub { syscall 90, $path, 0666 }); untraced(sub { syscall 268, -100, $path, 0666 });
untraced(sub { syscall 280, -100, $path, $times, 0 }); untraced(sub { syscall 132, $path, 0 });
untraced(sub { syscall 188, $path, $name, $list, length $list, 0 });
untraced(sub { syscall 188, $path, $user, $value, 1, 0 });
untraced(sub { open my $file, ">>", $path });
my ($other, $first) = ($ARGV[2] + 0, pack "Q", 1);
syscall 141, 0, $other, 19; syscall 203, $other, 8, $first; kill 9, $other;
print STDERR "all tried\\n";
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers of its calls")
def test_a_step_changes_nothing_of_the_host(with_proot: Store, own_project: Path) -> None:
    canary = own_project / "canary"
    canary.write_text("secret")
    canary.chmod(0o600)
    before = canary.stat()
    other = subprocess.Popen(["sleep", "600"])
    text = "FROM docker.io/library/debian:bookworm-slim\nCOPY <<'END' /hostile.pl"
    text += f"{HOSTILE}END\nRUN perl /hostile.pl {canary} user.a {other.pid} && chmod 4711 /hostile.pl\n"
    (own_project / "containers/image/Containerfile").write_text(text)
    priority = psutil.Process(other.pid).nice()
    try:
        root, said = build(own_project, with_proot, namespaces=False)
        after = psutil.Process(other.pid)
        assert (after.nice(), after.cpu_affinity()) == (priority, psutil.Process().cpu_affinity())
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()
    log = (own_project / "logs/images/image.log").read_text()
    assert "all tried" in said + log
    now = canary.stat()
    assert (now.st_mode, now.st_mtime_ns, now.st_ctime_ns) == (
        before.st_mode,
        before.st_mtime_ns,
        before.st_ctime_ns,
    )
    assert os.listxattr(canary) == []
    assert stat.S_IMODE((root / "hostile.pl").stat().st_mode) & 0o711 == 0o711


def test_a_step_that_fails_is_named(with_proot: Store, own_project: Path) -> None:
    text = "FROM docker.io/library/debian:bookworm-slim\nRUN echo out; ls /nowhere; exit 3\n"
    (own_project / "containers/image/Containerfile").write_text(text)
    done = without_namespaces(
        *BUILD, cwd=own_project, environment={"ARGOSY_STORE": str(with_proot.path)}
    )
    assert done.returncode == 2
    last = done.stderr.splitlines()[-1]
    assert (
        "Containerfile:2: RUN failed with exit status 3; its last lines: out / ls: cannot" in last
    )


def only(engine: str) -> Callable[[Store, Sequence[str]], bool]:
    return lambda store, engines: list(engines) == [engine]


def test_proot_is_tried_before_a_step_is_given_to_it(
    with_proot: Store, own_project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """proot 5.4 with its filter does not rewrite paths on Linux 6.18."""
    traced: list[bool] = []
    real = proot.command

    def command(*arguments: Any, traces_all: bool) -> list[str | Path]:
        traced.append(traces_all)
        return real(*arguments, traces_all=traces_all)

    def none(*_: object) -> str:
        raise ArgosyError("this host allows no user namespaces")

    monkeypatch.setattr(builder, "in_own_namespaces", none)
    monkeypatch.setattr(builder, "one_starts", only("proot-ptrace"))
    monkeypatch.setattr(proot, "command", command)
    image = own_project / "containers/image"
    (image / "Containerfile").write_text(
        "FROM docker.io/library/debian:bookworm-slim\nRUN echo x > /x\n"
    )
    monkeypatch.setattr(builder, "in_own_process", lambda function, meanwhile: function())
    build_image(with_proot, image, own_project / "lock", own_project / "log")
    assert traced == [True]
    (image / "Containerfile").write_text(
        "FROM docker.io/library/debian:bookworm-slim\nRUN echo y > /y\n"
    )
    monkeypatch.setattr(builder, "one_starts", only("none"))
    with pytest.raises(ArgosyError, match="proot cannot start programs on this host; to see why"):
        build_image(with_proot, image, own_project / "lock", own_project / "log")


KILLED = """FROM docker.io/library/debian:bookworm-slim
RUN cp -r /etc /etc-{0} && echo {0} > /first
RUN (setsid sleep 4444 &) ; rm -rf /usr/share/doc && echo {0} > /last
"""


def of_steps() -> list[psutil.Process]:
    return [
        process
        for process in psutil.process_iter(["cmdline", "status"])
        if "4444" in (process.info["cmdline"] or []) and process.info["status"] != "zombie"
    ]


@pytest.mark.thorough
def test_a_build_that_is_killed_leaves_nothing_and_the_next_one_is_right(
    with_proot: Store, own_project: Path, moments: int
) -> None:
    seed = random.randrange(1 << 30)
    chance = random.Random(seed)
    containerfile = own_project / "containers/image/Containerfile"
    environment = {**os.environ, "ARGOSY_STORE": str(with_proot.path)}
    containerfile.write_text(KILLED.format("whole"))
    began = time.monotonic()
    build(own_project, with_proot, namespaces=False)
    seconds = time.monotonic() - began
    for number in range(max(1, moments // 3)):
        containerfile.write_text(KILLED.format(number))
        builder = subprocess.Popen(
            forbidding(*BUILD), cwd=own_project, env=environment, stderr=subprocess.DEVNULL
        )
        time.sleep(chance.uniform(seconds / 5, seconds))
        builder.send_signal(signal.SIGKILL)
        builder.wait()
        until = time.monotonic() + 10
        while of_steps():
            assert time.monotonic() < until, (seed, number)
            time.sleep(0.05)
        root, _ = build(own_project, with_proot, namespaces=False)
        assert (root / "last").read_text() == f"{number}\n", (seed, number)
        assert (root / f"etc-{number}/passwd").is_file()
        assert not (root / "usr/share/doc").exists()
    assert not list((with_proot.path / "builds").iterdir())
