"""A project of its own for tests that run Snakemake: a copy of the checkout."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

COPIED = (
    "Snakefile",
    "workflow",
    "profiles",
    "slurm",
    "config",
    "containers",
    "launchers",
    "Makefile",
    "README.md",
)
SETUP_FILES = ("requirements.lock", "pyproject.toml")
BIN = Path(sys.executable).parent


@dataclass(frozen=True)
class Workspace:
    """A project folder that shares the checkout's images."""

    path: Path
    environment: dict[str, str]
    site: str = "local"

    @classmethod
    def copy(cls, project: Path, path: Path, store: Path, **more: Any) -> "Workspace":
        """Copy what makes the workflow to `path`, which is made."""
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
        return cls(path, {**os.environ, "ARGOSY_STORE": str(store)}, **more)

    def configure(self, experiments: dict[str, Any], **top: Any) -> None:
        """Replace config/config.yaml."""
        text = yaml.safe_dump({**top, "experiments": experiments})
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
        return self.path / "results" / self.site / experiment / run_id
