"""`argosy image shell` on a terminal, and with input from a pipe."""

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from no_namespaces import forbidding

from argosy_images import tools
from argosy_images.builder.builder import build_image
from argosy_images.store.store import Store

pytestmark = pytest.mark.container

SHELL = [sys.executable, "-m", "argosy.cli", "image", "shell", "image"]


@pytest.fixture
def workspace(store: Store, project_store: Store, tmp_path: Path) -> Path:
    tools.Tools(project_store).fetch_proot(print)
    image = tmp_path / "containers" / "image"
    image.mkdir(parents=True)
    (image / "Containerfile").write_text(
        "FROM docker.io/library/debian:bookworm-slim\nENV TOLD=yes\nWORKDIR /work\n"
    )
    (tmp_path / "containers/workloads").mkdir()
    (tmp_path / "containers/workloads/program").write_text("content\n")
    lock = tmp_path / "resources/images/image/image.lock"
    build_image(store, image, lock, tmp_path / "log")
    return tmp_path


def environment(store: Store) -> dict[str, str]:
    return {**os.environ, "ARGOSY_STORE": str(store.path), "TERM": "xterm"}


@pytest.mark.parametrize("namespaces", [True, False])
def test_a_terminal(workspace: Path, store: Store, namespaces: bool) -> None:
    ours, its = pty.openpty()
    command = SHELL if namespaces else forbidding(*SHELL)
    shell = subprocess.Popen(
        command,
        cwd=workspace,
        env=environment(store),
        stdin=its,
        stdout=its,
        stderr=its,
        start_new_session=True,
    )
    os.close(its)
    said = b""
    typed = (
        b"tty; pwd; echo $TOLD; cat /workloads/program; touch /new; echo $((6*7)) left; exit 7\n"
    )
    until = time.monotonic() + 60
    sent = False
    while time.monotonic() < until:
        try:
            data = os.read(ours, 1 << 16)
        except OSError:
            break
        said += data
        if not sent and b"# " in said:
            os.write(ours, typed)
            sent = True
    assert shell.wait(timeout=20) == 7, said
    lines = said.decode().splitlines()
    assert {"/work", "yes", "content", "42 left"} <= {line.strip() for line in lines}, lines
    assert any(line.startswith("/dev/") for line in lines), lines
    assert "touch: cannot touch '/new'" in said.decode()
    os.close(ours)


def test_a_pipe_and_another_program(workspace: Path, store: Store) -> None:
    done = subprocess.run(
        SHELL, cwd=workspace, env=environment(store), input="echo $TOLD; exit 3\n",
        capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (3, "yes\n"), done.stderr
    done = subprocess.run(
        [*SHELL, "--", "cat", "/etc/debian_version"],
        cwd=workspace, env=environment(store), capture_output=True, text=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0
    assert done.stdout.startswith("12.")


def test_an_image_that_is_not_built_is_one_line(tmp_path: Path, store: Store) -> None:
    (tmp_path / "containers/image").mkdir(parents=True)
    (tmp_path / "containers/image/Containerfile").write_text("FROM scratch\n")
    done = subprocess.run(
        SHELL, cwd=tmp_path, env=environment(store), capture_output=True, text=True
    )
    assert done.returncode == 2
    [problem, hint] = done.stderr.splitlines()
    assert problem.endswith("image.lock: the image is not built yet")
    assert hint == "hint: run: argosy image build image"


def is_called(process: psutil.Process, name: str) -> bool:
    try:
        return process.name() == name
    except psutil.Error:
        return False


@pytest.mark.parametrize("namespaces", [True, False])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_its_program_ends_with_it(
    workspace: Path, store: Store, namespaces: bool, number: signal.Signals
) -> None:
    """Without a terminal, the kernel hangs up nothing."""
    program = [*SHELL, "--", "sleep", "4321"]
    shell = subprocess.Popen(
        program if namespaces else forbidding(*program),
        cwd=workspace,
        env=environment(store),
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    argosy = psutil.Process(shell.pid)
    inside: list[psutil.Process] = []
    end = time.monotonic() + 120
    while not inside and time.monotonic() < end:
        time.sleep(0.1)
        inside = [one for one in argosy.children(recursive=True) if is_called(one, "sleep")]
    assert inside
    argosy.send_signal(number)
    if number != signal.SIGKILL:
        assert shell.wait(timeout=60) == 128 + signal.SIGTERM
    _, alive = psutil.wait_procs(inside, timeout=60)
    assert not alive
    shell.wait(timeout=60)
