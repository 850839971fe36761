"""Tables are brought up to date: what did not change is not read again, and nothing stays that is gone."""

import shutil
from pathlib import Path

import pytest
from study_files import completed, plan, sample_study

from argosy.results import collect
from argosy.results.tables import COLUMNS, fetch, open_tables


@pytest.fixture
def results(tmp_path: Path) -> Path:
    folder = tmp_path / "results" / "site"
    sample_study(folder)
    return folder


def rows(results: Path, tables_dir: Path) -> dict[str, list[str]]:
    """All rows of all tables, in no order."""
    said: list[str] = []
    collect(results, tables_dir, say=said.append)
    with open_tables(tables_dir) as tables:
        return {table: sorted(map(repr, fetch(tables, f"FROM {table}"))) for table in COLUMNS}


def say(results: Path) -> str:
    said: list[str] = []
    collect(results, results / "tables", say=said.append)
    [line] = said
    return line


def test_one_new_run_is_read_alone(results: Path, tmp_path: Path) -> None:
    assert say(results) == "13 runs to read, 0 as they were, 0 that cannot be read"
    completed(results, nodes=16)
    assert say(results) == "1 runs to read, 13 as they were, 0 that cannot be read"
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
    assert say(results) == "1 runs to read, 11 as they were, 0 that cannot be read"
    updated = rows(results, results / "tables")
    assert updated == rows(results, tmp_path / "anew")
    assert [row for row in updated["metrics"] if "added" in row]


def test_a_planned_run_that_was_carried_out(results: Path, tmp_path: Path) -> None:
    say(results)
    run = plan(results, "digits-mlp", 8, 2, 1)
    run.execute()
    run.steps()
    assert say(results).startswith("1 runs to read")
    assert rows(results, results / "tables") == rows(results, tmp_path / "anew")


def test_tables_that_are_up_to_date_are_not_touched(results: Path) -> None:
    say(results)
    before = {path: path.stat().st_mtime_ns for path in (results / "tables").iterdir()}
    # Planning writes it anew whenever anything of the study has changed.
    (results / "digits-mlp/nodes1-ranks2-repeat1/job.sbatch").write_text("#!/bin/bash\n")
    assert say(results) == "13 runs, none of them new"
    assert {path: path.stat().st_mtime_ns for path in (results / "tables").iterdir()} == before


def test_tables_of_another_version_are_made_again(results: Path, tmp_path: Path) -> None:
    say(results)
    (results / "tables" / "runs.parquet").write_text("no table")
    assert say(results).startswith("13 runs to read")
    assert rows(results, results / "tables") == rows(results, tmp_path / "anew")
