"""What is installed from a wheel is what the checkout has, and runs a study."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from workspace import BIN, Workspace

PACKAGES = ("argosy", "argosy_common", "argosy_images", "snakemake_executor_plugin_argosy")
BUILT = ("pyproject.toml", "README.md", "LICENSE")
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
    assert files(installed / package) == files(project / "workflow/src" / package)


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
