"""Tests of what records become run with both of the readers."""

import pytest

from argosy.results import steps
from argosy.results.plain_steps import is_compiled


@pytest.fixture(params=["compiled reader", "DuckDB"])
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps are read by one of the two ways; where Argosy is tested there is a compiler."""
    assert is_compiled()
    monkeypatch.setattr(steps, "is_compiled", lambda: request.param == "compiled reader")
