"""An installed wheel has the checkout's files, and runs a study."""

import os
import shutil
from pathlib import Path

import pytest
from wheels import SHIPPED, Tutorial, install, own_programs, programs_of, variables_of
from workspace import Workspace

from argosy_images.store.store import Store

PACKAGES = ("argosy", "argosy_common", "argosy_images", "snakemake_executor_plugin_argosy")
RUN = "nodes1-ranks2-repeat1"


@pytest.fixture(scope="module")
def installed(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment with the wheel."""
    return install(project, tmp_path_factory.mktemp("wheel"))


def files(folder: Path) -> set[str]:
    """Return the files that programs read."""
    paths = (path for path in folder.rglob("*") if path.is_file() and path.name != "README.md")
    return {str(path.relative_to(folder)) for path in paths if "__pycache__" not in path.parts}


@pytest.mark.parametrize("package", PACKAGES)
def test_all_files_are_in_the_wheel(project: Path, installed: Path, package: str) -> None:
    there = {path for path in files(installed / package) if not path.startswith("checkout/")}
    made = {"report/page/vega-embed.js"} if package == "argosy" else set()
    assert there == files(project / "workflow/src" / package) | made


def test_the_workflow_is_in_the_wheel_without_programs(project: Path, installed: Path) -> None:
    kept = {
        path
        for part in SHIPPED
        for path in ([part] if (project / part).is_file() else files_below(project, part))
        if not path.startswith("containers/workloads/")
    }
    assert files(installed / "argosy/checkout") == kept


def files_below(project: Path, part: str) -> set[str]:
    return {f"{part}/{path}" for path in files(project / part)}


STRANGER = """
import argparse
from pathlib import Path
from mine.speed import samples_per_second

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
lr = parser.parse_args().lr
for epoch in range(12):
    print(f"epoch {epoch}, lr {lr}: {samples_per_second(epoch):.1f} samples/s", flush=True)
Path("model.txt").write_text("weights")
"""


@pytest.mark.container
def test_a_strangers_repository_needs_three_commands_and_one_edit(
    installed: Path, project_store: Store, tmp_path: Path
) -> None:
    home = tmp_path / "repository"
    (home / "mine").mkdir(parents=True)
    (home / "train.py").write_text(STRANGER)
    (home / "mine/speed.py").write_text("def samples_per_second(epoch): return 100 + epoch % 3\n")
    (home / ".gitignore").write_text("*.pt")
    before = {path: path.read_bytes() for path in home.rglob("*.py")}
    programs = programs_of(installed)
    there = Workspace(home, {**variables_of(installed), "ARGOSY_STORE": str(project_store.path)})
    status, said = there.run(programs / "argosy", "init", "--command", "python train.py --lr 1e-3")
    assert status == 0, said
    config = home / "config/config.yaml"
    config.write_text(config.read_text().replace("# throughput:", "throughput:"))
    status, said = there.run(programs / "python", "-m", "snakemake", "--quiet", "host", "progress")
    assert status == 0, said
    assert (home / "results/local/report.html").is_file()
    status, said = there.run(programs / "argosy", "summary")
    assert status == 0 and "1 node gives 101 samples per second" in said
    assert (there.run_dir("train", "nodes1-ranks1-repeat1") / "output/model.txt").is_file()
    assert {path: path.read_bytes() for path in before} == before
    assert (home / ".gitignore").read_text().startswith("*.pt\n/.argosy\n")
    # A second snakemake has nothing to do, and a second project is refused.
    status, said = there.run(programs / "python", "-m", "snakemake", "-n")
    assert status == 0 and "Nothing to be done" in said
    status, said = there.run(programs / "argosy", "init", "--command", "python train.py")
    assert status != 0 and "config/config.yaml: this file exists already" in said


@pytest.mark.container
def test_the_tutorial_runs_as_it_is_written(
    installed: Path, project: Path, project_store: Store, tmp_path: Path
) -> None:
    tutorial = Tutorial.read(project)
    home = tmp_path / "repository"
    home.mkdir()
    tutorial.write_program(home)
    there = {"HOME": str(tmp_path), "ARGOSY_STORE": str(project_store.path)}
    study = Workspace(home, {**variables_of(installed), **there})
    for command in tutorial.here:
        status, said = study.run(*own_programs(installed, command))
        assert status == 0, f"{command}\n{said}"
        if command.startswith("argosy init"):
            tutorial.edit(home)
    assert "2 nodes" in said and (home / "results/local/report.html").is_file()


def test_an_installed_argosy_runs_a_study(workspace: Workspace, installed: Path) -> None:
    workspace.configure(
        {
            "hello": {
                "runtime": "native",
                "launcher": "plain",
                "command": "echo 100 samples/s",
                "throughput": r"(\d+) samples/s",
                "scale": {"nodes": [1], "ranks_per_node": 2, "repeats": 1},
                "resources": {"time": "2m"},
            }
        }
    )
    shutil.rmtree(workspace.path / "workflow/src")
    (workspace.path / ".venv").unlink()
    programs = programs_of(installed)
    environment = {
        **{name: value for name, value in workspace.environment.items() if name != "PYTHONPATH"},
        "PATH": f"{programs}:{os.environ['PATH']}",
    }
    there = Workspace(workspace.path, environment)
    status, said = there.run(programs / "python", "-c", "import argosy; print(argosy.__file__)")
    assert (status, Path(said.strip()).is_relative_to(installed)) == (0, True)
    status, said = there.run(programs / "python", "-m", "snakemake", "--quiet", "host", "progress")
    assert status == 0, said
    assert (there.run_dir("hello", RUN) / "result.json").is_file()
    status, said = there.run(programs / "argosy", "summary")
    assert status == 0 and "hello" in said
