"""Tables of allreduce times and layers."""

from pathlib import Path
from typing import Any

import pytest
from planned_studies import LAYERS, append, collective, layers
from study_files import completed

from argosy.results import collect
from argosy.results.tables import fetch, open_tables


def rows(results: Path, query: str) -> list[dict[str, Any]]:
    collect(results, results / "tables")
    with open_tables(results / "tables") as tables:
        return fetch(tables, query)


def test_an_operation_takes_as_long_as_its_slowest_rank(tmp_path: Path) -> None:
    run = completed(tmp_path / "site", nodes=2)
    append(run, 0, collective(4096, 0, 0.5), collective(4096, 1, 0.1))
    append(run, 1, collective(4096, 0, 0.2), collective(4096, 1, 0.3), collective(8, 0, 1.0))
    found = rows(tmp_path / "site", "SELECT * EXCLUDE (experiment, run_id) FROM collectives")
    assert found == [
        {"name": "allreduce", "bytes": 8, "repetition": 0, "seconds": 1.0, "ranks": 1},
        {"name": "allreduce", "bytes": 4096, "repetition": 0, "seconds": 0.5, "ranks": 2},
        {"name": "allreduce", "bytes": 4096, "repetition": 1, "seconds": 0.3, "ranks": 2},
    ]


def test_the_first_line_of_layers_counts(tmp_path: Path) -> None:
    run = completed(tmp_path / "site")
    append(run, 0, layers(), {**layers(timed=False), "at": 2000.0})
    found = rows(tmp_path / "site", "SELECT place, name, bytes, ready_s FROM layers")
    assert [tuple(row.values()) for row in found] == [
        (place, *layer) for place, layer in enumerate(LAYERS)
    ]


def test_what_is_not_known_of_layers_is_null(tmp_path: Path) -> None:
    append(completed(tmp_path / "site"), 0, layers(timed=False))
    found = rows(tmp_path / "site", "SELECT count(*) AS n, count(ready_s) AS known FROM layers")
    assert found == [{"n": 3, "known": 0}]


@pytest.mark.parametrize(
    "line",
    [
        {"kind": "collective", "name": "allreduce", "bytes": 8, "repetition": 0, "seconds": -1.0},
        {"kind": "collective", "name": "allreduce", "bytes": 0, "repetition": 0, "seconds": 1.0},
        {"kind": "collective", "bytes": 8, "repetition": 0, "seconds": 1.0},
        {**collective(8, 0, 1.0), "bytes": 8.5},
        {**collective(8, 0, 1.0), "repetition": 0.5},
        {**collective(8, 0, 1.0), "seconds": float("nan")},
        {"kind": "layers", "layers": []},
        {"kind": "layers", "layers": [{"name": "a", "bytes": -1, "ready_s": 1.0}]},
        {"kind": "layers", "layers": [{"name": "a", "bytes": 1, "ready_s": float("nan")}]},
        {"kind": "layers", "layers": [{"bytes": 1, "ready_s": 1.0}]},
        {"kind": "layers", "layers": [{"name": "a", "bytes": 8.5, "ready_s": 1.0}]},
        {"kind": "layers"},
    ],
)
def test_a_damaged_line_is_counted_and_in_no_table(tmp_path: Path, line: dict[str, Any]) -> None:
    append(completed(tmp_path / "site"), 0, line)
    query = """SELECT unreadable_records, (SELECT count(*) FROM collectives) AS collectives,
        (SELECT count(*) FROM layers) AS layers FROM runs"""
    assert rows(tmp_path / "site", query) == [
        {"unreadable_records": 1, "collectives": 0, "layers": 0}
    ]


def test_rows_of_runs_that_did_not_change_are_kept(tmp_path: Path) -> None:
    run = completed(tmp_path / "site")
    append(run, 0, layers(), collective(8, 0, 1.0))
    query = """SELECT (SELECT count(*) FROM collectives) AS collectives,
        (SELECT count(*) FROM layers) AS layers"""
    assert rows(tmp_path / "site", query) == [{"collectives": 1, "layers": 3}]
    append(completed(tmp_path / "site", repeat=2), 0, layers())
    assert rows(tmp_path / "site", query) == [{"collectives": 1, "layers": 6}]
