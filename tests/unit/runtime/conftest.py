"""Jobs of real agents, for tests of what agents do."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from agent_job import Job, jobs


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Callable[..., Job]]:
    """Makes jobs in the test's folder, and clears up after them."""
    with jobs(tmp_path) as make:
        yield make
