"""A study on a made-up cluster."""

from pathlib import Path

import pytest
from live_study import FakeStudy


@pytest.fixture
def fake(tmp_path: Path) -> FakeStudy:
    """A site in a project of the test's own."""
    return FakeStudy(tmp_path / "results" / "cluster")
