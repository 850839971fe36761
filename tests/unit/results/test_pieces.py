"""An interrupted and continued run is one measurement, with each step once."""

import json
from pathlib import Path

from study_files import RunFiles, plan

from argosy.results import collect
from argosy.results.tables import fetch, open_tables


def continued(results: Path) -> RunFiles:
    """Three attempts: 12 steps, checkpoint at 10; up to 14 steps, checkpoint at 13; the rest."""
    run = plan(results, nodes=2)
    run.claim("7.0")
    run.execute("7.0", state="interrupted")
    run.steps("7.0", steps=12, metrics={"test_accuracy": 0.1})
    run.claim("7.1", continues=("7.0", 10))
    run.execute("7.1", state="failed")
    run.steps("7.1", first_step=10, steps=14)
    run.claim("8.0", continues=("7.1", 13))
    run.execute("8.0")
    run.steps("8.0", first_step=13, steps=20, metrics={"test_accuracy": 0.9})
    return run


def test_steps_are_neither_lost_nor_counted_twice(tmp_path: Path) -> None:
    results = tmp_path / "site"
    continued(results)
    collect(results, results / "tables")
    with open_tables(results / "tables") as tables:
        steps = fetch(tables, "SELECT rank, step FROM steps ORDER BY rank, step")
        [run] = fetch(tables, "SELECT pieces, repeated_steps, attempt, state FROM runs")
        metrics = fetch(tables, "SELECT value_number FROM metrics")
        failures = fetch(tables, "SELECT attempt, state FROM failures ORDER BY attempt")
    assert [(row["rank"], row["step"]) for row in steps] == [
        (rank, step) for rank in range(2) for step in range(20)
    ]
    # Of both ranks: steps 10 and 11 of the first job, step 13 of the second.
    assert run == {"pieces": 3, "repeated_steps": 6, "attempt": "8.0", "state": "completed"}
    assert [row["value_number"] for row in metrics] == [0.9]
    assert failures == [
        {"attempt": "7.0", "state": "interrupted"},
        {"attempt": "7.1", "state": "failed"},
    ]


def test_a_job_that_begins_anew_takes_nothing_of_those_before(tmp_path: Path) -> None:
    results = tmp_path / "site"
    run = plan(results)
    run.claim("7.0")
    run.execute("7.0", state="failed")
    run.steps("7.0", steps=12)
    run.claim("7.1")
    run.execute("7.1")
    run.steps("7.1", steps=15)
    collect(results, results / "tables")
    with open_tables(results / "tables") as tables:
        [counts] = fetch(tables, "SELECT count(*) AS steps FROM steps")
        [row] = fetch(tables, "SELECT pieces, repeated_steps FROM runs")
    assert counts["steps"] == 15
    assert row == {"pieces": 1, "repeated_steps": 0}


def test_a_chain_that_bites_its_tail_ends(tmp_path: Path) -> None:
    results = tmp_path / "site"
    run = plan(results)
    run.claim("7.0", continues=("7.0", 3))
    run.execute("7.0")
    run.steps("7.0")
    collect(results, results / "tables")
    with open_tables(results / "tables") as tables:
        [row] = fetch(tables, "SELECT pieces FROM runs")
    assert row["pieces"] == 1


def test_printed_metrics_are_those_of_the_last_job(tmp_path: Path) -> None:
    """Nothing shows which printed lines belong to repeated steps."""
    results = tmp_path / "site"
    run = continued(results)
    for attempt, value in (("7.0", 0.1), ("7.1", 0.2), ("8.0", 0.3)):
        record = {"kind": "metric", "name": "loss", "value": value, "at": 1.0, "clock": 1.0}
        (run.records(attempt) / "printed.jsonl").write_text(json.dumps(record) + "\n")
    collect(results, results / "tables")
    with open_tables(results / "tables") as tables:
        found = fetch(tables, "SELECT value_number FROM metrics WHERE name = 'loss'")
    assert [row["value_number"] for row in found] == [0.3]
