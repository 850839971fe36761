"""Where a project's images lie."""

from pathlib import Path

import pytest

from argosy.images.store import Store


def test_a_store_may_be_a_link_to_where_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "scratch").mkdir()
    (tmp_path / "project").mkdir()
    (tmp_path / "project/.argosy").symlink_to(tmp_path / "scratch")
    assert Store.of_project(tmp_path / "project").path == tmp_path / "scratch"
    monkeypatch.setenv("ARGOSY_STORE", str(tmp_path / "project/.argosy"))
    assert Store.of_project(tmp_path).path == tmp_path / "scratch"
