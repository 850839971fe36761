"""Containers by runc, from one frozen image."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from image_programs import contained

from argosy_common.errors import ArgosyError
from argosy_images.engines import container
from argosy_images.engines.models import Bind, Container, Outcome
from argosy_images.store.store import Store

pytestmark = pytest.mark.container
PATH = {"PATH": "/opt/venv/bin:/usr/bin:/bin"}


def run(store: Store, root: Path, *command: str, **options: object) -> tuple[Outcome, str]:
    return contained(store, Container(root, command, environment=PATH, **options))  # type: ignore[arg-type]


def test_exit_status_output_and_utf8_are_right_and_no_temporary_folder_is_left(
    project_store: Store, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for status in (0, 1, 7, 255):
        outcome, output = run(project_store, root, "sh", "-c", f"echo 'grüße ✓'; exit {status}")
        assert (outcome.status, output) == (status, "grüße ✓\n")
    assert list(tmp_path.iterdir()) == []


def test_sixteen_at_once_from_one_frozen_image(project_store: Store, root: Path) -> None:
    def one(number: int) -> tuple[int | None, str]:
        text = f"ñ {number} " * 400
        line = "import sys; print(sys.argv[1]); sys.exit(int(sys.argv[2]))"
        outcome, output = run(project_store, root, "python3", "-c", line, text, str(number))
        assert output == f"{text}\n"
        return outcome.status, output

    before = snapshot_of(root)
    with ThreadPoolExecutor(16) as pool:
        statuses = [status for status, _ in pool.map(one, range(16))]
    assert statuses == list(range(16))
    assert snapshot_of(root) == before


def snapshot_of(root: Path) -> list[tuple[str, int]]:
    return [(path.name, path.lstat().st_mtime_ns) for path in [root, *root.iterdir()]]


def test_a_frozen_image_stays_as_it_is(project_store: Store, root: Path) -> None:
    # Choose a program that no other test runs from the same layer.
    tries = (
        "touch /etc/new; echo x >> /usr/bin/tac; rm /etc/passwd; echo x >> /etc/group; echo tried"
    )
    _, output = run(project_store, root, "sh", "-c", tries)
    assert output.endswith("tried\n")
    refused = output.count("ermission denied") + output.count("Read-only file system")
    assert refused == 4, output
    assert (root / "etc/passwd").exists()
    assert not (root / "etc/new").exists()


def test_tmp_is_writable_and_private(project_store: Store, root: Path) -> None:
    outcome, _ = run(project_store, root, "sh", "-c", "echo x > /tmp/mine")
    assert outcome.status == 0
    _, output = run(project_store, root, "ls", "/tmp")
    assert output == ""


def test_folders_of_the_host_are_mounted(project_store: Store, root: Path, tmp_path: Path) -> None:
    folder = tmp_path / "a folder; with $(odd) 'characters'"
    folder.mkdir()
    outcome, _ = run(
        project_store,
        root,
        "cp",
        "/etc/hostname",
        "/job/copied",
        binds=[Bind(folder, "/job", writable=True)],
    )
    assert outcome.status == 0
    assert (folder / "copied").exists()


def test_values_of_variables_are_not_in_any_argument_list(project_store: Store, root: Path) -> None:
    secret = "value-that-nobody-may-see"
    seen: list[str] = []
    environment = {**PATH, "TOKEN": secret}
    inside = Container(root, ["sh", "-c", "echo $TOKEN; sleep 1"], environment=environment)
    output: list[bytes] = []
    runner = threading.Thread(target=container.run, args=(project_store, inside, output.append))
    runner.start()
    while runner.is_alive():
        for process in psutil.process_iter(["cmdline"]):
            seen += process.info["cmdline"] or []
        time.sleep(0.05)
    assert b"".join(output).decode() == f"{secret}\n"
    assert not [argument for argument in seen if secret in argument]


def test_name_resolution_is_the_hosts(project_store: Store, root: Path) -> None:
    _, output = run(project_store, root, "cat", "/etc/hosts", "/etc/resolv.conf")
    expected = [Path(f"/etc/{name}").read_text() for name in ("hosts", "resolv.conf")]
    assert output == "".join(expected)


def test_a_missing_image_or_folder_is_one_clear_error(project_store: Store, tmp_path: Path) -> None:
    with pytest.raises(ArgosyError, match="the image is missing; build it with"):
        run(project_store, tmp_path / "nowhere", "true")
    with pytest.raises(ArgosyError, match="the folder to mount does not exist"):
        run(project_store, tmp_path, "true", binds=[Bind(tmp_path / "gone", "/job")])


@pytest.mark.parametrize("below", [(), ("nohup",)])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_when_the_runner_is_ended(
    project_store: Store,
    torch_digest: str,
    tmp_path: Path,
    number: signal.Signals,
    below: tuple[str],
) -> None:
    marker = f"argosy-test-{os.getpid()}-{number}"
    program = f"import time; print('{marker}', flush=True); time.sleep(60)"
    command = [sys.executable, "-m", "argosy_images.run", "--digest", torch_digest]
    runner = subprocess.Popen(
        [*below, *command, "--log-dir", tmp_path, "--", "python3", "-c", program],
        env={**os.environ, "TMPDIR": str(tmp_path), "ARGOSY_STORE": str(project_store.path)},
        stdout=subprocess.PIPE,
    )
    assert runner.stdout
    assert marker.encode() in runner.stdout.readline()
    runner.send_signal(number)
    runner.wait(timeout=15)
    deadline = time.monotonic() + 10
    while left := [
        process for process in psutil.process_iter(["cmdline"]) if mentions(process, marker)
    ]:
        assert time.monotonic() < deadline, left
        time.sleep(0.1)
    if number != signal.SIGKILL:
        assert list(tmp_path.glob("argosy-*")) == []


def mentions(process: psutil.Process, marker: str) -> bool:
    return any(marker in argument for argument in process.info["cmdline"] or [])
