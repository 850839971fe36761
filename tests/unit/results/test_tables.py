"""Opening tables, and their permissions."""

from pathlib import Path

import pytest
from study_files import completed

from argosy.results import ResultsError, collect
from argosy.results.tables import open_tables


def test_a_missing_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match=r"runs\.parquet: no such table"):
        open_tables(tmp_path)


def test_tables_are_private(tmp_path: Path) -> None:
    for repeat in (1, 2):
        completed(tmp_path / "site", repeat=repeat)
        collect(tmp_path / "site", tmp_path / "tables")
        modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.glob("tables/*")}
        assert set(modes.values()) == {0o600}, modes
