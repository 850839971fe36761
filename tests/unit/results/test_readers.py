"""Whatever the ranks wrote, the compiled reader and DuckDB make the same tables of it."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from study_files import plan

from argosy.results import collect, long_lines, step_batches, steps
from argosy.results.tables import fetch, open_tables

KEYS = ("kind", "step", "epoch", "start", "seconds", "samples", "phases")
NUMBERS = (
    st.floats(0, 1e6)
    | st.integers(0, 1000)
    | st.sampled_from([-5, -1.0, 32.5, 2**31, 10**15, 1e301, float("nan"), float("inf")])
)
STEP = st.builds(
    lambda *values: json.dumps(dict(zip(KEYS, values, strict=True))),
    st.just("step"),
    st.integers(0, 6),
    st.integers(0, 3),
    st.floats(0, 1e6),
    st.floats(1e-9, 1e3),
    st.integers(1, 100),
    st.dictionaries(st.sampled_from(["data", "h2d", "update"]), st.floats(0, 10)),
)
ODD_STEP = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["step", "stop"]),
        "seconds": NUMBERS,
        "step": st.integers(-1, 6) | NUMBERS,
    },
    optional={
        "epoch": st.none() | st.integers(0, 3) | NUMBERS,
        "samples": NUMBERS,
        "start": NUMBERS,
        "phases": st.dictionaries(st.sampled_from(["data", "prayer"]), NUMBERS),
    },
).map(json.dumps)
OTHER = st.sampled_from(
    [
        '{"kind": "metric", "name": "loss", "value": 0.5, "at": 3.5}',
        '{"kind": "metric", "name": "good", "value": true, "at": 4}',
        '{"kind": "collective", "name": "allreduce", "bytes": 8, "repetition": 1, "seconds": 0.5}',
        '{"kind": "step", "step": 1, "ep',
        "garbage",
        "",
        "\0\0",
        "x" * 2000,
    ]
)
LINES = st.lists(STEP | OTHER, max_size=12) | st.lists(STEP | ODD_STEP | OTHER, max_size=12)


def tables_of(results: Path, name: str) -> dict[str, list[dict[str, Any]]]:
    """All rows of the tables that are made of the lines of ranks."""
    collect(results, results.parent / name)
    with open_tables(results.parent / name) as tables:
        return {
            table: fetch(tables, f"SELECT * FROM {table}")
            for table in ("steps", "runs", "metrics", "collectives", "problems")
        }


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    ranks=st.lists(LINES, min_size=1, max_size=3),
    is_ended=st.booleans(),
    part_bytes=st.sampled_from([100, 1 << 20]),
)
def test_both_make_the_same_tables(
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    ranks: list[list[str]],
    is_ended: bool,
    part_bytes: int,
) -> None:
    results = tmp_path_factory.mktemp("study") / "site"
    run = plan(results, ranks_per_node=len(ranks))
    run.execute()
    run.steps(steps=0)
    for rank, lines in enumerate(ranks):
        with run.rank_file("100.0", rank).open("a") as file:
            file.write("\n".join(lines) + "\n" * is_ended)
    monkeypatch.setattr(step_batches, "_PART_BYTES", part_bytes)
    monkeypatch.setattr(long_lines, "LONGEST_LINE", 1000)
    monkeypatch.setattr(steps, "is_compiled", lambda: True)
    by_compiled = tables_of(results, "compiled")
    monkeypatch.setattr(steps, "is_compiled", lambda: False)
    by_duckdb = tables_of(results, "duckdb")
    # As texts: NaN is not the same as NaN.
    assert {name: repr(rows) for name, rows in by_duckdb.items()} == {
        name: repr(rows) for name, rows in by_compiled.items()
    }


def test_steps_as_the_recorder_writes_them_are_not_left_to_duckdb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = plan(tmp_path / "site", nodes=2)
    run.execute()
    run.steps(metrics={"loss": 0.5})
    monkeypatch.setattr(steps, "STEPS", "SELECT nothing")
    assert len(tables_of(tmp_path / "site", "tables")["steps"]) == 30
