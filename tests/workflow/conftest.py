"""A project of its own for workflow tests: a copy of the checkout, in a folder with a difficult name."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from argosy.images.store import Store

COPIED = ("workflow", "slurm", "profiles", "config", "containers", "Makefile", "README.md")
SETUP_FILES = ("requirements.lock", "pyproject.toml")
BIN = Path(sys.executable).parent


@dataclass(frozen=True)
class Workspace:
    """A project folder that shares the checkout's images."""

    path: Path
    environment: dict[str, str]

    def configure(self, experiments: dict[str, Any]) -> None:
        """Replace the experiments of config/config.yaml."""
        text = yaml.safe_dump({"experiments": experiments})
        (self.path / "config/config.yaml").write_text(text)

    def start(self, *command: str | Path, **options: Any) -> subprocess.Popen[str]:
        """Start a command in the project."""
        return subprocess.Popen(
            command,
            cwd=self.path,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            **options,
        )

    def run(self, *command: str | Path) -> tuple[int, str]:
        """Run a command in the project: its exit status and all its output."""
        process = self.start(*command)
        output, _ = process.communicate()
        return process.returncode, output

    def snakemake(self, *arguments: str) -> tuple[int, str]:
        """Run snakemake in the project."""
        return self.run(BIN / "snakemake", *arguments)

    def run_dir(self, experiment: str, run_id: str) -> Path:
        """The folder of a run."""
        return self.path / "results/local" / experiment / run_id


@pytest.fixture(scope="session")
def make_workspace(
    project: Path, project_store: Store, torch_digest: str, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Workspace]:
    """Makes workspaces."""

    def make(name: str) -> Workspace:
        path = tmp_path_factory.mktemp("workspace") / name
        path.mkdir()
        ignored = shutil.ignore_patterns("*.egg-info", "__pycache__")
        for entry in COPIED:
            source = project / entry
            if source.is_dir():
                shutil.copytree(source, path / entry, ignore=ignored)
            else:
                shutil.copy2(source, path / entry)
        for entry in SETUP_FILES:
            shutil.copy2(project / entry, path / entry)
        (path / ".venv").symlink_to(BIN.parent)
        environment = {**os.environ, "ARGOSY_STORE": str(project_store.path)}
        return Workspace(path, environment)

    return make


@pytest.fixture(scope="module")
def workspace(make_workspace: Callable[[str], Workspace]) -> Workspace:
    """One workspace for the tests of a module."""
    return make_workspace("a project; with $(odd) 'name'")


@pytest.fixture
def digits() -> dict[str, Any]:
    """The experiment of the demo, one repeat of each point."""
    return {
        "image": "torch-cpu",
        "command": "python3 /workloads/torch/digits.py",
        "scale": {"nodes": [1, 2], "repeats": 1},
        "needs": {"time": "10m"},
    }
