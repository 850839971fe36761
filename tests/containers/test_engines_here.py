"""Engines of containers, measured on this host.

Engines that do not isolate are in `test_unisolated_engines`.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from no_namespaces import CHOOSE, TRY, without_namespaces

from argosy_images import tools
from argosy_images.engines.choice import choose_engine, engine_of_host, try_engine
from argosy_images.engines.models import ISOLATING_ENGINES
from argosy_images.engines.trusted_root import trusted_root
from argosy_images.store.store import Store

pytestmark = [pytest.mark.alone, pytest.mark.container, pytest.mark.udocker]

WORKING = ("runc", "crun")
"""Isolating engines that may work on test hosts."""


def test_engines_are_measured_once_and_the_fastest_is_noted(store: Store) -> None:
    choice = choose_engine(store)
    assert [trial.engine for trial in choice.trials] == list(ISOLATING_ENGINES)
    by_name = {trial.engine: trial for trial in choice.trials}
    assert by_name["runc"].start_s, by_name["runc"]
    assert by_name["runc"].calls_s is not None
    isolating = [by_name[name].cost_s for name in ISOLATING_ENGINES]
    assert by_name[choice.engine].cost_s == min(isolating)

    (note,) = store.engines.glob("*.json")
    noted = json.loads(note.read_text())
    assert noted["engine"] == choice.engine
    # From now on the stored choice decides.
    note.write_text(json.dumps({**noted, "engine": "apptainer"}))
    assert engine_of_host(store) == "apptainer"
    note.write_text("half of")
    # Measured again; a different engine may be the fastest now.
    assert engine_of_host(store) == json.loads(note.read_text())["engine"]


@pytest.fixture
def without_proot(store: Store) -> Store:
    """Return a store without the distribution's packages."""
    store.tools.unlink(missing_ok=True)
    return store


def test_where_nothing_can_run_every_engine_says_why(without_proot: Store) -> None:
    store = without_proot
    done = without_namespaces(sys.executable, "-c", CHOOSE, store.path)
    assert done.returncode == 1
    assert "ArgosyError: no container engine works on this host (runc: " in done.stderr
    assert "; proot: not installed; proot-ptrace: not installed)" in done.stderr
    assert not [*store.engines.iterdir()]


def test_a_host_is_tried_without_any_image_and_nothing_is_left(store: Store) -> None:
    with trusted_root(store) as root:
        there = [path for path in root.rglob("*") if path.is_file() and not path.is_symlink()]
        assert root / "bin/sh" in there
        assert try_engine(store, root, "runc").works
        folder = root.parent
    assert not folder.exists()


NO_PROGRAMS = 'mount -t tmpfs -o noexec none "$TMPDIR" && exec "$@"'


def test_engines_are_tried_where_programs_may_be_started(store: Store, tmp_path: Path) -> None:
    temporary = tmp_path / "noexec"
    temporary.mkdir()
    command = ["unshare", "-rm", "sh", "-c", NO_PROGRAMS, "sh", sys.executable, "-c", CHOOSE]
    environment = {**os.environ, "TMPDIR": str(temporary)}
    done = subprocess.run([*command, store.path], env=environment, capture_output=True, text=True)
    assert done.stdout.strip() in WORKING, done.stderr
    (note,) = store.engines.glob("*.json")
    assert note.suffix == ".json"


def test_crun_works_where_control_groups_are_not_mixed(tmp_path: Path, root: Path) -> None:
    own = Store(tmp_path / "store")
    tools.Tools(own).require("crun", print)
    # crun refuses hosts with control groups of both versions, as this one may be.
    hide = 'mount -t tmpfs none /sys/fs/cgroup && exec "$@"'
    command = ["unshare", "-rm", "sh", "-c", hide, "sh", sys.executable, "-c", TRY]
    done = subprocess.run([*command, own.path, root, "crun"], capture_output=True, text=True)
    assert done.stdout == "\n", done.stdout + done.stderr


def test_an_engine_that_does_not_work_says_why_in_plain_text(store: Store, root: Path) -> None:
    done = without_namespaces(sys.executable, "-c", TRY, store.path, root, "runc")
    [said] = done.stdout.splitlines()
    assert said.startswith("unshare: ")
    assert said.isprintable()


def run_program(
    project: Path, store: Store, digest: str, logs: Path, *options: str
) -> subprocess.CompletedProcess[str]:
    """Run the program that batch scripts start on each node."""
    command = [sys.executable, "-m", "argosy_images.run", "--digest", digest, "--log-dir", logs]
    return subprocess.run(
        [*command, *options, "--", "sh", "-c", "echo inside; exit 4"],
        cwd=project,
        env={**os.environ, "ARGOSY_STORE": str(store.path)},
        capture_output=True,
        text=True,
    )


@pytest.fixture
def noted(store: Store, project_store: Store, torch_digest: str) -> Store:
    """Return a store with the frozen image but without stored choices of engines."""
    target = store.root(torch_digest)
    target.parent.mkdir()
    target.symlink_to(project_store.root(torch_digest))
    store.description(torch_digest).symlink_to(project_store.description(torch_digest))
    return store


def put_broken_crun_first(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir()
    (folder / "crun").write_text("#!/bin/sh\nexit 1\n")
    (folder / "crun").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def test_a_node_measures_once_and_notices_when_it_was_wrong(
    project: Path,
    noted: Store,
    torch_digest: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    put_broken_crun_first(tmp_path / "bin", monkeypatch)
    done = run_program(project, noted, torch_digest, tmp_path)
    assert (done.returncode, done.stdout) == (4, "inside\n")
    (note,) = noted.engines.glob("*.json")
    right = json.loads(note.read_text())
    assert right["engine"] in WORKING
    note.write_text(json.dumps({**right, "engine": "crun"}))
    again = run_program(project, noted, torch_digest, tmp_path)
    assert again.returncode == 4
    chosen = json.loads(note.read_text())["engine"]
    assert chosen in WORKING
    assert again.stdout.endswith(f"argosy: crun did not start here, {chosen} does\ninside\n")


def test_the_sites_word_counts(
    project: Path,
    noted: Store,
    torch_digest: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done = run_program(project, noted, torch_digest, tmp_path, "--engine", "runc")
    assert (done.returncode, done.stdout) == (4, "inside\n")
    assert not noted.engines.exists()
    put_broken_crun_first(tmp_path / "bin", monkeypatch)
    done = run_program(project, noted, torch_digest, tmp_path, "--engine", "crun")
    assert done.returncode == 2
    assert "crun did not start the container; images.engine in site.yaml" in done.stderr
