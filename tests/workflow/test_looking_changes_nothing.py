"""Parsing, dry runs and read-only commands change nothing, not even during a running study."""

import hashlib
import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from workspace import BIN, Workspace

OTHER = "config/other.yaml"
RUN = "nodes1-ranks1-repeat1"
LOOKS = {
    "dry run": ["-n"],
    "dry run of another study": ["-n", "--configfile", OTHER],
    "dry run of another key": ["-n", "--config", "only=[quick]", "queue=null"],
    "rules": ["--list-rules"],
    "graph": ["--dag", "--configfile", OTHER],
    "rule graph": ["--rulegraph", "--configfile", OTHER],
    "lint": ["--lint", "--configfile", OTHER],
    "summary": ["--summary", "--configfile", OTHER],
    "changes": ["--list-changes", "code", "--configfile", OTHER],
    "unlock": ["--unlock", "--configfile", OTHER],
    "containerize": ["--containerize", "--configfile", OTHER],
    "compilation": ["--print-compilation", "--configfile", OTHER],
}
COMMANDS = [
    ("status",),
    ("failures",),
    ("summary", "results/local"),
    ("logs", f"quick/{RUN}"),
    ("records", f"quick/{RUN}"),
    ("image", "list"),
    ("image", "prune", "--dry-run"),
    ("site", "list"),
    ("doctor", "--help"),
]


def quick(rate: int) -> dict[str, Any]:
    """An experiment without an image that prints its rate."""
    return {
        "runtime": "native",
        "launcher": "plain",
        "command": f"bash -c 'echo rate {rate}'",
        "throughput": "rate ([0-9]+)",
        "scale": {"nodes": [1], "repeats": 1},
        "resources": {"time": "2m"},
    }


def write_other(workspace: Workspace, experiment: dict[str, Any], name: str = "quick") -> None:
    """Write another study."""
    text = yaml.safe_dump({"experiments": {name: experiment}})
    (workspace.path / OTHER).write_text(text)


def state(folder: Path) -> dict[str, tuple[object, ...]]:
    """Return the state of all files and folders, except Snakemake's."""
    found: dict[str, tuple[object, ...]] = {}
    for path in (folder, *sorted(folder.rglob("*"))):
        name = str(path.relative_to(folder))
        if name.split("/", maxsplit=1)[0] in (".snakemake", ".venv") or "__pycache__" in name:
            continue
        about = path.lstat()
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        # The project's own folder gets .snakemake, and what it holds is compared by name.
        times = None if path == folder else (about.st_mtime_ns, about.st_ctime_ns)
        found[name] = (about.st_mode, about.st_ino, times, content)
    own = (folder / ".snakemake").glob("argosy*")
    return found | {str(path.relative_to(folder)): (path.lstat().st_mtime_ns,) for path in own}


@pytest.fixture(scope="module")
def finished(make_workspace: Callable[[str], Workspace]) -> Workspace:
    """A study that is measured."""
    workspace = make_workspace("a project; with $(odd) 'name'")
    workspace.configure({"quick": quick(5)})
    status, output = workspace.snakemake("--quiet", "host")
    assert status == 0, output
    write_other(workspace, quick(999))
    return workspace


def test_snakemake_only_looks(finished: Workspace) -> None:
    before = state(finished.path)
    for look, options in LOOKS.items():
        _, output = finished.snakemake(*options)
        assert "Traceback" not in output, f"{look}: {output}"
        assert state(finished.path) == before, look
    # Nor has any of them changed what Snakemake itself remembers.
    status, output = finished.snakemake("-n")
    assert status == 0 and "Nothing to be done" in output, output


def test_a_dry_run_names_what_another_study_measures_again(finished: Workspace) -> None:
    for _ in range(2):
        status, output = finished.snakemake("-n", "--configfile", OTHER)
        assert status == 0 and f"Running quick {RUN}" in output, output
        assert f"Measured again, since the request has changed: quick/{RUN}" in output


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_commands_only_look(finished: Workspace, command: tuple[str, ...]) -> None:
    # Without a store, none is made.
    environment = {key: value for key, value in finished.environment.items() if "ARGOSY" not in key}
    before = state(finished.path)
    done = subprocess.run(
        [BIN / "argosy", *command], cwd=finished.path, env=environment, capture_output=True
    )
    assert done.returncode == 0, done.stderr
    assert state(finished.path) == before


def test_a_new_project_stays_as_it_is(make_workspace: Callable[[str], Workspace]) -> None:
    workspace = make_workspace("new")
    workspace.configure({"quick": quick(5)})
    before = state(workspace.path)
    status, output = workspace.snakemake("-n")
    assert status == 0 and "plan_runs" in output, output
    assert state(workspace.path) == before


def test_a_second_snakemake_that_is_refused_changes_nothing(
    make_workspace: Callable[[str], Workspace],
) -> None:
    workspace = make_workspace("two drivers")
    workspace.configure({"quick": {**quick(5), "command": "bash -c 'sleep 15; echo rate 5'"}})
    write_other(workspace, quick(999))
    first = workspace.start(BIN / "snakemake")
    assert first.stdout
    while "Running quick" not in (line := first.stdout.readline()):
        assert line, "it ended before it had run anything"
    time.sleep(3)
    paths = ("study.json", "runs.txt", "quick/*/run.json", "quick/*/job.sbatch", "tables/*")
    results = workspace.path / "results/local"

    def planned() -> dict[Path, tuple[int, bytes]]:
        found = sorted(path for pattern in paths for path in results.glob(pattern))
        return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in found}

    before = planned()
    status, output = workspace.snakemake("--configfile", OTHER)
    assert status != 0 and "another snakemake manages the runs" in output, output
    assert planned() == before
    output, _ = first.communicate()
    assert first.returncode == 0, output
    assert rate(workspace, "quick") == 5


@pytest.mark.container
def test_a_running_study_stays_its_own_while_its_image_is_built(
    make_workspace: Callable[[str], Workspace],
) -> None:
    workspace = make_workspace("while an image is built")
    image = workspace.path / "containers/slow"
    image.mkdir()
    (image / "Containerfile").write_text("FROM localhost/torch-cpu\nRUN sleep 30\n")
    contained = {**quick(100), "image": "slow"}
    del contained["runtime"]
    workspace.configure({"quick": contained})
    write_other(workspace, {**contained, "command": "bash -c 'echo rate 999'"})
    first = workspace.start(BIN / "snakemake")
    assert first.stdout
    while "Building image" not in (line := first.stdout.readline()):
        assert line, "it ended before it had built anything"
    for look in (["-n", "--configfile", OTHER], ["--list-rules", "--configfile", OTHER]):
        status, output = workspace.snakemake(*look)
        assert status == 0, output
    # Neither does a file that is changed count for a Snakemake that has read it.
    workspace.configure({"quick": {**contained, "command": "bash -c 'echo rate 777'"}})
    status, output = workspace.snakemake()
    assert status != 0 and "another snakemake manages the runs" in output, output
    output, _ = first.communicate()
    assert first.returncode == 0, output
    assert rate(workspace, "quick") == 100


@pytest.mark.parametrize("remembers", [True, False])
def test_a_dry_run_works_where_nothing_can_be_written(
    make_workspace: Callable[[str], Workspace], remembers: bool
) -> None:
    workspace = make_workspace("read only")
    workspace.configure({"quick": quick(5)})
    if remembers:
        status, output = workspace.snakemake("--quiet", "host")
        assert status == 0, output
    subprocess.run(["chmod", "-R", "a-w", workspace.path], check=True)
    try:
        status, output = workspace.snakemake("-n")
    finally:
        subprocess.run(["chmod", "-R", "u+w", workspace.path], check=True)
    assert status == 0 and "Traceback" not in output, output
    assert ("Nothing to be done" if remembers else f"Running quick {RUN}") in output, output


def rate(workspace: Workspace, experiment: str) -> float:
    """Return the throughput in the summary."""
    summary = json.loads((workspace.path / "results/local/summary.json").read_text())
    (found,) = [each for each in summary["experiments"] if each["experiment"] == experiment]
    (value,) = found["points"][0]["runs_samples_per_s"]
    return float(value)


def test_the_study_planned_last_is_known_by_its_file(finished: Workspace) -> None:
    results = finished.path / "results/local"
    study = results / "study.json"
    os.utime(study, (1, 1))
    status, output = finished.snakemake("-n")
    assert status == 0 and "Nothing to be done" in output, output
    # Scripts of which nobody knows what they were made of are written again, and nothing is measured.
    study.unlink()
    status, output = finished.snakemake("--quiet", "host")
    assert status == 0 and "Planning" in output and "Running quick" not in output, output
    assert study.is_file()
