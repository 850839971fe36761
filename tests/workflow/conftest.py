"""A project for workflow tests: a copy of the checkout, in a folder with a difficult name."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from workspace import Workspace

from argosy_images.store.store import Store


@pytest.fixture(scope="session")
def make_workspace(
    project: Path, project_store: Store, torch_digest: str, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Workspace]:
    """Makes workspaces."""

    def make(name: str) -> Workspace:
        path = tmp_path_factory.mktemp("workspace") / name
        return Workspace.copy(project, path, project_store.path)

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
        "resources": {"time": "10m"},
    }
