"""What is installed from a wheel is what the checkout has, and runs a study."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
import yaml
from workspace import BIN, Workspace

from argosy_images.store.store import Store

PACKAGES = ("argosy", "argosy_common", "argosy_images", "snakemake_executor_plugin_argosy")
BUILT = ("pyproject.toml", "setup.py", "README.md", "LICENSE")
SHIPPED = ("Snakefile", "workflow/rules", "workflow/report", "profiles", "slurm", "containers")
RUN = "nodes1-ranks2-repeat1"


@pytest.fixture(scope="module")
def installed(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment with the wheel, and the dependencies of the checkout's behind it."""
    folder = tmp_path_factory.mktemp("wheel")
    source, environment = folder / "source", folder / "environment"
    ignored = shutil.ignore_patterns("*.egg-info", "__pycache__")
    shutil.copytree(project / "workflow/src", source / "workflow/src", ignore=ignored)
    for name in BUILT:
        shutil.copy2(project / name, source)
    for name in SHIPPED:
        if (project / name).is_dir():
            shutil.copytree(project / name, source / name, ignore=ignored)
        else:
            shutil.copy2(project / name, source / name)
    pip = (BIN / "python", "-m", "pip", "--quiet", "--disable-pip-version-check")
    build = ("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, source)
    subprocess.run([*pip, *build], check=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    python = environment / "bin/python"
    [wheel] = folder.glob("*.whl")
    subprocess.run([*pip, "--python", python, "install", "--no-deps", wheel], check=True)
    there = {"base": str(environment), "platbase": str(environment)}
    packages = Path(sysconfig.get_path("purelib", vars=there))
    # Such a file's folders follow the environment's own, and their own files of this kind are not read: the
    # checkout, which is installed there as such, is not reached.
    (packages / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return packages


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
    programs = installed.parents[2] / "bin"
    variables = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    path = f"{programs}:{os.environ['PATH']}"
    there = Workspace(home, {**variables, "PATH": path, "ARGOSY_STORE": str(project_store.path)})
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
    # What is asked for once more is there, and a second project is refused.
    status, said = there.run(programs / "python", "-m", "snakemake", "-n")
    assert status == 0 and "Nothing to be done" in said
    status, said = there.run(programs / "argosy", "init", "--command", "python train.py")
    assert status != 0 and "config/config.yaml: this file exists already" in said


@pytest.mark.container
def test_the_tutorial_runs_as_it_is_written(
    installed: Path, project: Path, project_store: Store, tmp_path: Path
) -> None:
    page = (project / "docs/tutorial.md").read_text()
    files = re.findall(r"^`([\w./]+)`:\n\n```\w*\n(.*?)^```", page, flags=re.M | re.S)
    assert [name for name, _ in files] == ["train.py", "requirements.txt", "config/config.yaml"]
    home = tmp_path / "repository"
    home.mkdir()
    for name, text in files[:2]:
        (home / name).write_text(text)
    programs = installed.parents[2] / "bin"
    variables = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    path = f"{programs}:{os.environ['PATH']}"
    there = {"HOME": str(tmp_path), "PATH": path, "ARGOSY_STORE": str(project_store.path)}
    study = Workspace(home, {**variables, **there})
    commands = [
        line
        for block in re.findall(r"^```sh\n(.*?)^```", page, flags=re.M | re.S)
        for line in block.splitlines()
    ]
    for command in commands:
        status, said = study.run(*own_programs(programs, shlex.split(command)))
        assert status == 0, f"{command}\n{said}"
        if command.startswith("argosy init"):
            made = yaml.safe_load((home / "config/config.yaml").read_text())
            asked = yaml.safe_load(files[2][1])
            # What the page tells to change is all that differs.
            edited = {"image", "data", "throughput"}
            for config in (made, asked):
                [(_, experiment)] = config["experiments"].items()
                for key in edited:
                    experiment.pop(key, None)
            assert made == asked
            (home / "config/config.yaml").write_text(files[2][1])
    assert "2 nodes" in said and (home / "results/local/report.html").is_file()


def own_programs(programs: Path, words: list[str]) -> list[Path | str]:
    """Return a command with the programs of an environment."""
    if words[0] == "snakemake":
        return [programs / "python", "-m", *words]
    return [programs / words[0], *words[1:]]


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
    programs = installed.parents[2] / "bin"
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
