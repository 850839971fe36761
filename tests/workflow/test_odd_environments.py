"""A study and commands that read it, in environments as set by modules and sites."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from workspace import BIN, Workspace

SHADOWED = ("numpy", "json", "duckdb", "typer", "sitecustomize")
ENVIRONMENTS: dict[str, dict[str, str]] = {
    "empty": {},
    "POSIX, east, unbuffered": {
        "LC_ALL": "POSIX",
        "PYTHONCOERCECLOCALE": "0",
        "PYTHONUTF8": "0",
        "TZ": "Asia/Tokyo",
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    },
    "unknown locale, no zone, modules, no terminal": {
        "LC_ALL": "xx_YY.ISO-8859-1",
        "LANG": "xx",
        "TZ": "nowhere+27",
        "PYTHONPATH": "{shadows}:/nowhere/lib/python2.7",
        "PYTHONHOME": "/nowhere",
        "TERM": "dumb",
        "COLUMNS": "0",
        "NO_COLOR": "1",
    },
}
"""Independent settings share a study, since each costs a snakemake and four commands."""
COMMANDS = (
    ("status", "local"),
    ("summary", "results/local"),
    ("report", "results/local"),
    ("image", "list"),
)


@pytest.fixture
def shadows(tmp_path: Path) -> Path:
    """Modules of another Python: importing one of them ends the importer."""
    folder = tmp_path / "shadows"
    folder.mkdir()
    for name in SHADOWED:
        (folder / f"{name}.py").write_text("import os\nos._exit(99)\n")
    return folder


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_a_study_runs(name: str, make_workspace: Callable[[str], Workspace], shadows: Path) -> None:
    place = make_workspace("prüfung")
    variables = {key: each.format(shadows=shadows) for key, each in ENVIRONMENTS[name].items()}
    place.environment.clear()
    place.environment.update(
        {
            "HOME": str(place.path),
            "PATH": "/usr/bin:/bin",
            "ARGOSY_STORE": str(place.path / "store"),
            **variables,
        }
    )
    place.configure(
        {
            "words": {
                "runtime": "native",
                "launcher": "plain",
                "command": "printf '%s samples/s → ü\\n' 20 20 20 20",
                "throughput": "([0-9.]+) samples/s",
                "scale": {"nodes": [1], "repeats": 1},
                "resources": {"memory_per_rank": "100M", "time": "1m"},
            }
        }
    )
    status, output = place.snakemake()
    assert status == 0, output
    for command in COMMANDS:
        done = subprocess.run(
            [BIN / "argosy", *command],
            cwd=place.path,
            env=place.environment,
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
        )
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr


def test_braces_in_the_path_of_the_project_are_no_wildcard(
    make_workspace: Callable[[str], Workspace],
) -> None:
    workspace = make_workspace("a{x}")
    experiment = {"image": "odd", "command": "true", "scale": {"nodes": [1]}}
    workspace.configure({"one": experiment})
    image = workspace.path / "containers/odd"
    image.mkdir()
    (image / "Containerfile").write_text("FROM localhost/torch-cpu\nCOPY a* /data/\n")
    (image / "a").touch()
    status, output = workspace.snakemake("-n")
    assert status == 0 and "Building image odd" in output, output
    # Inside the project they are, and are said to be.
    (image / "a{b}").touch()
    status, output = workspace.snakemake("-n")
    assert status != 0 and "Traceback" not in output, output
    assert "containers/odd/a{b}: Snakemake treats braces in a path as a wildcard" in output
    assert "hint: rename it" in output and "Building DAG" not in output, output


def test_braces_in_the_path_of_an_archive_are_named(
    make_workspace: Callable[[str], Workspace],
) -> None:
    workspace = make_workspace("archives")
    archive = workspace.path / "{name}.tar"
    archive.touch()
    experiment = {"image": "./{name}.tar", "command": "true", "scale": {"nodes": [1]}}
    workspace.configure({"one": experiment})
    status, output = workspace.snakemake("-n")
    assert status != 0 and "Traceback" not in output, output
    assert "{name}.tar: Snakemake treats braces in a path as a wildcard" in output, output
