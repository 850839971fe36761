"""Argosy installed from a wheel, and the tutorial that begins with it."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from workspace import BIN

BUILT = ("pyproject.toml", "setup.py", "README.md", "LICENSE")
SHIPPED = (
    *("Snakefile", "workflow/rules", "workflow/report"),
    *("profiles", "slurm", "containers", "launchers"),
)
FILES = ("train.py", "requirements.txt", "config/config.yaml")


def install(project: Path, folder: Path) -> Path:
    """Make an environment with the wheel, and the checkout's dependencies behind it: its packages."""
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


@dataclass(frozen=True)
class Tutorial:
    """docs/tutorial.md: the files that it tells to write, and the commands to type."""

    files: dict[str, str]
    here: list[str]
    """On this machine."""
    init_there: str
    """Its first command on a login node."""
    on_the_cluster: list[str]

    @classmethod
    def read(cls, project: Path) -> "Tutorial":
        """Return what the page says."""
        page = (project / "docs/tutorial.md").read_text()
        found = re.findall(r"^`([\w./]+)`:\n\n```\w*\n(.*?)^```", page, flags=re.M | re.S)
        assert [name for name, _ in found] == [*FILES]
        blocks = re.findall(r"^```sh\n(.*?)^```", page, flags=re.M | re.S)
        _, init, last = re.findall(r"^```shell\n(.*?)^```", page, flags=re.M | re.S)
        commands = [line for block in blocks for line in block.splitlines()]
        return cls(dict(found), commands, init.strip(), last.splitlines())

    def write_program(self, home: Path) -> None:
        """Write the files that are there before Argosy."""
        for name in FILES[:2]:
            (home / name).write_text(self.files[name])

    def edit(self, home: Path) -> None:
        """Make the one edit of the page, which is all by which the files of `init` differ from its own."""
        config = home / FILES[2]
        made, asked = yaml.safe_load(config.read_text()), yaml.safe_load(self.files[FILES[2]])
        assert _without_edited(made) == _without_edited(asked)
        config.write_text(self.files[FILES[2]])


def _without_edited(config: dict[str, Any]) -> dict[str, Any]:
    [(_, experiment)] = config["experiments"].items()
    for key in ("data", "throughput"):
        experiment.pop(key, None)
    return config


def programs_of(packages: Path) -> Path:
    """Return the folder of an environment's programs."""
    return packages.parents[2] / "bin"


def variables_of(packages: Path) -> dict[str, str]:
    """Return this process's variables with an environment's programs first."""
    variables = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    return {**variables, "PATH": f"{programs_of(packages)}:{os.environ['PATH']}"}


def own_programs(packages: Path, command: str) -> list[Path | str]:
    """Return a command with the programs of an environment."""
    programs, words = programs_of(packages), shlex.split(command)
    if words[0] == "snakemake":
        return [programs / "python", "-m", *words]
    return [programs / words[0], *words[1:]]
