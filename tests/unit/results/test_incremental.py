"""Updates of tables: unchanged runs are not read again, and removed runs disappear."""

import os
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from study_files import completed, plan, sample_study

from argosy.cli.results import report
from argosy.results import collect, own_tables
from argosy.results.tables import COLUMNS, TABLES_VERSION, fetch, open_tables
from argosy_common.errors import ArgosyError


@pytest.fixture
def results(tmp_path: Path) -> Path:
    folder = tmp_path / "results" / "site"
    sample_study(folder)
    return folder


def rows(results: Path, tables_dir: Path) -> dict[str, list[str]]:
    """Return all rows of all tables, unsorted."""
    said: list[str] = []
    collect(results, tables_dir, say=said.append)
    with open_tables(tables_dir) as tables:
        return {table: sorted(map(repr, fetch(tables, f"FROM {table}"))) for table in COLUMNS}


def say(results: Path) -> str:
    said: list[str] = []
    collect(results, results / "tables", say=said.append)
    [line] = said
    return line


def test_each_folder_of_a_run_is_listed_once(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed: Counter[str] = Counter()
    scandir = os.scandir

    def counted(folder: int | str = ".") -> Any:
        name = (
            str(Path(f"/proc/self/fd/{folder}").readlink())
            if isinstance(folder, int)
            else str(folder)
        )
        listed[name] += 1
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", counted)
    collect(results, results / "tables")
    of_runs = {name: times for name, times in listed.items() if f"{results}/digits" in name}
    assert f"{results}/digits-mlp/nodes2-ranks2-repeat2/records" in of_runs
    assert {*of_runs.values()} == {1}


def test_one_new_run_is_read_alone(results: Path, tmp_path: Path) -> None:
    assert say(results) == "13 runs to read, 0 unchanged, 0 unreadable"
    completed(results, nodes=16)
    assert say(results) == "1 run to read, 13 unchanged, 0 unreadable"
    assert say(results) == "14 runs, none of them new"
    assert rows(results, results / "tables") == rows(results, tmp_path / "anew")


def test_a_changed_run_is_read_again_and_a_removed_one_is_gone(
    results: Path, tmp_path: Path
) -> None:
    say(results)
    run = results / "digits-mlp" / "nodes2-ranks2-repeat2"
    with next(run.glob("records/*/rank-1.jsonl")).open("a") as records:
        records.write('{"kind": "metric", "name": "added", "value": 1, "at": 1.0}\n')
    shutil.rmtree(results / "digits-mlp" / "nodes4-ranks2-repeat3")
    assert say(results) == "1 run to read, 11 unchanged, 0 unreadable"
    updated = rows(results, results / "tables")
    assert updated == rows(results, tmp_path / "anew")
    assert [row for row in updated["metrics"] if "added" in row]


def test_a_planned_run_that_was_carried_out(results: Path, tmp_path: Path) -> None:
    say(results)
    run = plan(results, "digits-mlp", 8, 2, 1)
    run.execute()
    run.steps()
    assert say(results).startswith("1 run to read")
    assert rows(results, results / "tables") == rows(results, tmp_path / "anew")


def test_tables_that_are_up_to_date_are_not_touched(results: Path) -> None:
    say(results)
    before = {path: path.stat().st_mtime_ns for path in (results / "tables").iterdir()}
    # Planning rewrites it after any change of the study.
    (results / "digits-mlp/nodes1-ranks2-repeat1/job.sbatch").write_text("#!/bin/bash\n")
    assert say(results) == "13 runs, none of them new"
    assert {path: path.stat().st_mtime_ns for path in (results / "tables").iterdir()} == before


def lines(results: Path) -> list[str]:
    said: list[str] = []
    collect(results, results / "tables", say=said.append)
    return said


def no_table(path: Path) -> None:
    path.write_text("no table")


def cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


def changed_within(path: Path) -> None:
    """Damage the middle of a table, which readers check last."""
    content = bytearray(path.read_bytes())
    begin = min(200, len(content) // 3)
    content[begin : len(content) // 2] = bytes(len(content) // 2 - begin)
    path.write_bytes(content)


def of_an_older_version(path: Path) -> None:
    rewrite(path, "*", schema_version="10")


def with_a_column_less(path: Path) -> None:
    rewrite(path, "* EXCLUDE run_id")


def with_a_column_more(path: Path) -> None:
    rewrite(path, "*, 1 AS more")


def of_other_types(path: Path) -> None:
    rewrite(path, "* REPLACE (1 AS run_id)")


def rewrite(path: Path, columns: str, schema_version: str = str(TABLES_VERSION)) -> None:
    """Replace a table by the result of a query on it."""
    copy = path.with_suffix(".copy")
    duckdb.connect().execute(
        f"COPY (SELECT {columns} FROM read_parquet($path)) TO $copy "
        f"(FORMAT parquet, KV_METADATA {{schema_version: '{schema_version}'}})",
        {"path": str(path), "copy": str(copy)},
    )
    copy.replace(path)


@pytest.mark.parametrize("table", ["runs", "steps", "telemetry", "problems"])
@pytest.mark.parametrize(
    "damage",
    [
        no_table,
        cut_off,
        of_an_older_version,
        changed_within,
        with_a_column_less,
        with_a_column_more,
        of_other_types,
    ],
)
def test_tables_that_cannot_be_used_are_made_again_and_that_is_said(
    results: Path, tmp_path: Path, table: str, damage: Callable[[Path], None]
) -> None:
    say(results)
    path = results / "tables" / f"{table}.parquet"
    damage(path)
    if damage is of_an_older_version:
        own_tables.mark(path)
    said = lines(results)
    assert f"{table}.parquet: " in said[0]
    assert said[0].endswith("rebuilding the tables from the run folders")
    assert said[1].startswith("13 runs to read")
    assert rows(results, results / "tables") == rows(results, tmp_path / "anew")


def test_a_report_of_a_damaged_table_makes_it_again(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    say(results)
    changed_within(results / "tables/steps.parquet")
    with pytest.raises(ArgosyError, match=r"a table is damaged .*argosy report"):
        report(results, from_tables=True)
    report(results)
    assert "changed since: rebuilding the tables from the run folders" in capsys.readouterr().err
    report(results, from_tables=True)


def test_a_report_before_any_run_has_completed_changes_no_column(tmp_path: Path) -> None:
    results = tmp_path / "results" / "site"
    waiting = plan(results, "digits", 1, 1, 1)
    plan(results, "digits", 1, 1, 2).execute(state="failed")
    lines(results)
    waiting.execute()
    waiting.telemetry(0)
    lines(results)
    with open_tables(results / "tables") as tables:
        first, *_ = fetch(tables, "SELECT gpu, at_s, cpu_s FROM telemetry ORDER BY at_s")
    assert first["gpu"] is None and first["at_s"] is not None and first["cpu_s"] is not None
    assert rows(results, results / "tables") == rows(results, tmp_path / "anew")


@pytest.mark.parametrize("earlier", [False, True])
def test_each_table_has_its_columns_whatever_its_rows_are_of(
    results: Path, tmp_path: Path, earlier: bool
) -> None:
    if earlier:
        lines(results)
        completed(results, nodes=16).telemetry(0, gpus=1)
    for folder in (results, tmp_path / "results/empty"):
        folder.mkdir(exist_ok=True)
        lines(folder)
        for table, columns in COLUMNS.items():
            described = duckdb.connect().execute(
                "DESCRIBE FROM read_parquet($path)",
                {"path": str(folder / "tables" / f"{table}.parquet")},
            )
            assert [row[:2] for row in described.fetchall()] == [*columns.items()], table
