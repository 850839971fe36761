"""Sweeping removes the temporary folders of killed processes, and no others."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from argosy_images.store import scratch
from argosy_images.store.scratch import private_folder, sweep

HOLD = """
import subprocess, sys
from argosy_images.store.scratch import private_folder

with private_folder() as (folder, lock):
    (folder / "of a step").mkdir(mode=0o500)
    if sys.argv[1:]:
        subprocess.Popen(["sleep", "60"], pass_fds=[lock], stdout=subprocess.DEVNULL)
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for the test's temporary files."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def started(*options: str) -> "tuple[subprocess.Popen[str], Path]":
    """A process and its temporary folder; with an option, its child holds the folder as well."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout
    return process, Path(process.stdout.readline().strip())


def killed(process: "subprocess.Popen[str]") -> None:
    process.kill()
    process.communicate()


def test_what_a_killed_process_left_goes_and_what_is_used_stays(temporary: Path) -> None:
    living, used = started()
    dead, left = started()
    killed(dead)
    assert {*temporary.iterdir()} == {used, left}
    with private_folder() as (own, _):
        sweep()
        assert {*temporary.iterdir()} == {used, own}
    killed(living)
    sweep()
    assert not [*temporary.iterdir()]


def test_a_folder_stays_as_long_as_a_container_has_it() -> None:
    process, folder = started("and a process of its own")
    killed(process)
    sweep()
    assert folder.is_dir()
    os.killpg(process.pid, signal.SIGKILL)
    until = time.monotonic() + 20
    while folder.exists():
        assert time.monotonic() < until, "it is there though nobody uses it any more"
        time.sleep(0.02)
        sweep()


def test_what_is_not_such_a_folder_stays(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dead, left = started()
    killed(dead)
    name = left.name.rpartition("-")[0]
    kept = {
        left,
        *(temporary / other for other in (f"argosy-{os.getuid()}", "argosy-node.abc", "x")),
    }
    kept.add(temporary / f"{name}-b-12345678")
    for path in kept - {left}:
        path.mkdir()
    (temporary / f"{name}-file").touch()
    (temporary / f"{name}-link").symlink_to(temporary / "x")
    kept |= {temporary / f"{name}-file", temporary / f"{name}-link"}
    # Folders of another user, or of another host with a shared /tmp.
    with monkeypatch.context() as changed:
        changed.setattr(os, "geteuid", lambda: os.getuid() + 1)
        sweep()
        assert {*temporary.iterdir()} == kept
    with monkeypatch.context() as changed:
        changed.setattr(scratch, "_prefix", lambda: "argosy-another-host-")
        sweep()
        assert {*temporary.iterdir()} == kept
    sweep()
    assert {*temporary.iterdir()} == kept - {left}


def test_however_deep_a_program_went_nothing_is_left(temporary: Path) -> None:
    with private_folder() as (folder, _):
        at = os.open(folder, os.O_RDONLY)
        for _ in range(1500):
            os.mkdir("d", dir_fd=at)
            inner = os.open("d", os.O_RDONLY, dir_fd=at)
            os.close(at)
            at = inner
        os.close(at)
    assert [*temporary.iterdir()] == []
