"""Tests of the host's apptainer; `make check-apptainer` runs them on a machine that has one."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from image_programs import runner

from argosy_images.engines import apptainer, container
from argosy_images.engines.choice import choose_engine, try_engine
from argosy_images.engines.models import APPTAINER, Bind, Container
from argosy_images.engines.trusted_root import trusted_root
from argosy_images.store.store import Store

pytestmark = [
    pytest.mark.container,
    pytest.mark.apptainer,
    pytest.mark.skipif(
        apptainer.find() is None,
        reason="this host has no apptainer, and Debian 12 none to install: make check-apptainer",
    ),
]

PROGRAM = (
    "trap 'echo saved; exit 9' TERM; echo began; while :; do read -r line < /proc/uptime; done"
)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    own = Store(tmp_path / "store")
    own.path.mkdir()
    return own


@pytest.fixture
def root(store: Store) -> Iterator[Path]:
    """A small tree with the host's shell."""
    with trusted_root(store) as tree:
        yield tree


def run(
    store: Store, root: Path, script: str, *binds: Bind, **environment: str
) -> tuple[int | None, str]:
    printed: list[bytes] = []
    inside = Container(
        root,
        ["/bin/sh", "-c", script],
        binds=binds,
        environment=environment,
        workdir="/usr",
        engine=APPTAINER,
    )
    outcome = container.run(store, inside, printed.append)
    return outcome.status, b"".join(printed).decode()


def test_it_is_tried_and_chosen_where_nothing_else_isolates(store: Store, root: Path) -> None:
    trial = try_engine(store, root, APPTAINER)
    assert trial.works, trial.said
    assert APPTAINER in [trial.engine for trial in choose_engine(store).trials if trial.works]


def test_variables_home_and_status(store: Store, root: Path) -> None:
    script = 'echo "$A/$HOME/$PWD"; exit 7'
    found = run(store, root, script, A="one, 'two'\nthree", HOME="/tmp", PATH="/bin")
    assert found == (7, "one, 'two'\nthree//tmp//usr\n")


def test_what_may_be_written_to(store: Store, root: Path, tmp_path: Path) -> None:
    odd, own = tmp_path / 'read, "only"', tmp_path / "own"
    for folder in (odd, own):
        folder.mkdir()
        (folder / "file").write_text("before\n")
    before = {path: path.lstat().st_mtime_ns for path in root.rglob("*")}
    places = ("/new", "/bin/sh", "/data/file", "/job/file", "/tmp/file", "/run/argosy/file")
    script = "; ".join(f"(echo after > {place}) 2>/dev/null && echo {place}" for place in places)
    status, said = run(
        store, root, f"{script}; exit 0", Bind(odd, "/data"), Bind(own, "/job", writable=True)
    )
    assert (status, said.split()) == (0, ["/job/file", "/tmp/file", "/run/argosy/file"])
    assert (odd / "file").read_text() == "before\n"
    assert (own / "file").read_text() == "after\n"
    assert {path: path.lstat().st_mtime_ns for path in root.rglob("*")} == before


def test_it_sees_no_other_process_and_no_control_group_that_can_be_changed(
    store: Store, root: Path
) -> None:
    script = (
        "echo /proc/[0-9]*; while read -r _ place _ options _; do case $place in "
        "/sys*) last=${options%%,*}; echo $place=$last;; esac; done < /proc/self/mounts"
    )
    status, said = run(store, root, script)
    processes, *mounts = said.splitlines()
    assert status == 0
    assert len(processes.split()) < 8
    assert f"/proc/{os.getpid()}" not in processes.split()
    # Of several mounts at one path, the last is visible.
    seen = dict(line.split("=") for line in mounts)
    assert set(seen.values()) == {"ro"}, seen


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_it_ends_with_the_one_that_runs_it(
    store: Store, root: Path, number: signal.Signals
) -> None:
    command = runner(store, root, APPTAINER, ["/bin/sh", "-c", PROGRAM])
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout and process.stdout.readline() == "began\n"
    inside = [
        one
        for one in psutil.process_iter(["cmdline"])
        if any("echo began" in word for word in one.info["cmdline"] or ())
    ]
    process.send_signal(number)
    found = (process.stdout.read(), process.wait())
    assert found == (("saved\n", 9) if number == signal.SIGTERM else ("", -signal.SIGKILL))
    until = time.monotonic() + 10
    while left := [one for one in inside if one.pid != process.pid and one.is_running()]:
        assert time.monotonic() < until, left
        time.sleep(0.05)
