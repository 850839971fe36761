"""A small project with results, and commands that run in this process."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import Argosy, Done
from study_files import sample_study
from typer.main import get_command

from argosy.cli import app
from argosy.cli.guard import status_of
from argosy.report import write_report
from argosy.results import collect


@pytest.fixture(scope="session")
def made_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with the results and the report of one site; do not change it."""
    project = tmp_path_factory.mktemp("made") / "project"
    sample_study(project / "results/local")
    results = project / "results/local"
    for path in results.glob("*/*/run.json"):
        if not path.parent.match("digits-mlp/nodes[12]-ranks2-repeat1"):
            shutil.rmtree(path.parent)
    runs = sorted(path.parent for path in results.glob("*/*/run.json"))
    (results / "runs.txt").write_text(
        "".join(f"{each.relative_to(project)}\n" for each in runs), encoding="utf-8"
    )
    collect(results, results / "tables")
    write_report(results)
    checkout = Path(__file__).parents[3]
    for name in ("slurm/local/site.yaml", "containers/torch-cpu/Containerfile"):
        (project / name).parent.mkdir(parents=True)
        (project / name).write_bytes((checkout / name).read_bytes())
    (project / "config").mkdir()
    (project / "config/config.yaml").write_text("site: local\n")
    (project / "Snakefile").write_text("# The rules.\n")
    return project


@pytest.fixture(scope="session")
def command_line() -> Callable[..., object]:
    """All commands, made of their functions once: calling `app` itself makes them anew each time."""
    return get_command(app)


@pytest.fixture
def argosy(capsys: pytest.CaptureFixture[str], command_line: Callable[..., object]) -> Argosy:
    """Run a command in this process, in the current folder."""

    def run(*arguments: str) -> Done:
        capsys.readouterr()
        status = status_of(
            lambda: command_line(arguments, standalone_mode=False, prog_name="argosy")
        )
        said = capsys.readouterr()
        return Done(status, said.out, said.err)

    return run
