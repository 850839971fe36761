"""Fixtures for jobs of real agents."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from agent_job import Job, jobs


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Callable[..., Job]]:
    """Creates jobs in the test's folder, and removes their processes."""
    with jobs(tmp_path) as make:
        yield make
