"""A small project with results."""

import shutil
from pathlib import Path

import pytest
from reports import reported
from study_files import sample_study


@pytest.fixture(scope="session")
def made_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with results and a report of one site; tests must not change it."""
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
    reported(results)
    checkout = Path(__file__).parents[3]
    for name in ("slurm/local/site.yaml", "containers/torch-cpu/Containerfile"):
        (project / name).parent.mkdir(parents=True)
        (project / name).write_bytes((checkout / name).read_bytes())
    (project / "config").mkdir()
    (project / "config/config.yaml").write_text("site: local\n")
    (project / "Snakefile").write_text("# The rules.\n")
    return project


@pytest.fixture
def project(made_project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the project that a test may change; it is the current folder."""
    path = tmp_path / "project"
    shutil.copytree(made_project, path, symlinks=True)
    monkeypatch.chdir(path)
    monkeypatch.delenv("ARGOSY_STORE", raising=False)
    return path
