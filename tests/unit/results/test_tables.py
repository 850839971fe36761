"""Opening tables: only those that this Argosy knows how to read."""

from pathlib import Path

import duckdb
import pytest
from study_files import completed

from argosy.results import ResultsError, collect
from argosy.results.tables import open_tables


def test_a_missing_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match=r"runs\.parquet: no such table"):
        open_tables(tmp_path)


def test_another_version_is_refused(tmp_path: Path) -> None:
    completed(tmp_path / "site")
    collect(tmp_path / "site", tmp_path / "tables")
    duckdb.connect().execute(
        "COPY (SELECT 1) TO $path (FORMAT parquet, KV_METADATA {schema_version: '99'})",
        {"path": str(tmp_path / "tables" / "steps.parquet")},
    )
    with pytest.raises(ResultsError, match=r"steps\.parquet: its schema_version is 99"):
        open_tables(tmp_path / "tables")


def test_what_is_not_parquet_is_refused(tmp_path: Path) -> None:
    completed(tmp_path / "site")
    collect(tmp_path / "site", tmp_path / "tables")
    (tmp_path / "tables" / "runs.parquet").write_text("no table")
    with pytest.raises(ResultsError, match=r"runs\.parquet: is not a table"):
        open_tables(tmp_path / "tables")


def test_tables_are_private(tmp_path: Path) -> None:
    for repeat in (1, 2):
        completed(tmp_path / "site", repeat=repeat)
        collect(tmp_path / "site", tmp_path / "tables")
        modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.glob("tables/*")}
        assert set(modes.values()) == {0o600}, modes
