"""Studies of one small experiment, and projects that run it."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from argosy.jobs.planning import Project
from argosy.study.config import Source, parse_config
from argosy.study.models import Config
from argosy.study.runs import Run, expand

SLURM = Path(__file__).parents[2] / "slurm"


def configured(name: str = "one", top: Mapping[str, Any] | None = None, **keys: Any) -> Config:
    """Return the study of one experiment; without `keys` it runs `true` once, on one node.

    It is without a container unless `keys` name an image. `top` has keys beside `experiments`.
    """
    least = {"command": "true", "scale": {"nodes": 1, "repeats": 1}}
    runtime = {} if "image" in keys else {"runtime": "native"}
    content = {**(top or {}), "experiments": {name: {**least, **runtime, **keys}}}
    return parse_config(content, [Source("config.yaml", content)])


def runs_of(name: str = "one", top: Mapping[str, Any] | None = None, **keys: Any) -> list[Run]:
    """Return the runs of the study of one experiment."""
    return expand(configured(name, top, **keys))


def project_with(folder: Path, *sites: str) -> Project:
    """Return a project in `folder` with some of the checkout's sites."""
    for name in ("templates", *sites):
        shutil.copytree(SLURM / name, folder / "slurm" / name)
    return Project(folder)
