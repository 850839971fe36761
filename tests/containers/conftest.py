"""Frozen images, and ways to run programs in them, for several files of tests."""

from collections.abc import Callable
from pathlib import Path

import pytest
from image_programs import root_of, run_python

from argosy_images import tools
from argosy_images.engines.models import Bind, Outcome
from argosy_images.store.store import Store

Python = Callable[..., tuple[Outcome, str]]


@pytest.fixture
def root(project_store: Store, torch_digest: str) -> Path:
    """The frozen torch-cpu image."""
    return project_store.root(torch_digest)


@pytest.fixture(scope="session")
def roots(project_store: Store, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The frozen images torch-cpu and tensorflow-cpu by framework."""
    folder = tmp_path_factory.mktemp("images")
    return {each: root_of(project_store, f"{each}-cpu", folder) for each in ("torch", "tensorflow")}


@pytest.fixture
def python(project_store: Store, roots: dict[str, Path], tmp_path: Path) -> Python:
    """Run Python in a framework's image as a rank would: how it ended, and what it printed."""

    def run(
        framework: str, *arguments: str, heard: Callable[[bytes], object] = bool
    ) -> tuple[Outcome, str]:
        return run_python(
            project_store,
            roots[framework],
            arguments,
            Bind(tmp_path, "/job", writable=True),
            heard=heard,
            OMP_NUM_THREADS="1",
            ARGOSY_STEPS_FILE="/job/rank-0.steps",
        )

    return run


@pytest.fixture
def with_proot(store: Store, project_store: Store) -> Store:
    """A store of the test's own, with proot."""
    tools.Tools(project_store).fetch_proot(print)
    return store
