"""Tables from run folders."""

import json
import os
import shutil
from pathlib import Path

import duckdb
import pytest
from study_files import STARTED, completed, plan, sample_study, write_json

from argosy.results import ResultsError, collect, long_lines, own_tables
from argosy.results.tables import COLUMNS, TABLES_VERSION, fetch, open_tables

KILLED = {"node": 1, "rank": 1, "cause": "killed by signal 9", "at": STARTED + 5}


@pytest.fixture
def results(tmp_path: Path) -> Path:
    folder = tmp_path / "results" / "site"
    folder.mkdir(parents=True)
    return folder


def collected(results: Path) -> duckdb.DuckDBPyConnection:
    collect(results, results / "tables")
    return open_tables(results / "tables")


def problems(results: Path) -> list[dict[str, str]]:
    with collected(results) as tables:
        return fetch(tables, "SELECT * FROM problems")


def test_a_completed_run(results: Path) -> None:
    completed(results, nodes=2, metrics={"test_accuracy": 0.95, "weights_identical": True})
    with collected(results) as tables:
        [run] = fetch(tables, "SELECT * FROM runs")
        steps = fetch(tables, "SELECT * FROM steps")
        metrics = fetch(tables, "SELECT name, value_number, value_text, at_s FROM metrics")
        nodes = fetch(tables, "SELECT node, host, cpus FROM nodes")
    provenance = json.loads(run.pop("provenance"))
    assert len(run.pop("files_fingerprint")) == 32
    assert provenance["argosy"]["git_commit"] == "0123abc"
    logs = ("job", "node-0", "node-1", "ranks/rank-0", "ranks/rank-1")
    assert run == {
        "experiment": "digits",
        "run_id": "nodes2-ranks1-repeat1",
        "site": "site",
        "nodes": 2,
        "ranks_per_node": 1,
        "ranks": 2,
        "processes": 2,
        "repeat": 1,
        "scaling": "strong",
        "variant_of": None,
        "variant_data": None,
        "timeline": False,
        "horovod_cycle_s": None,
        "horovod_fusion_bytes": None,
        "command": ["python3", "train.py"],
        "launcher": "horovod",
        "is_native": False,
        "hardware": None,
        "queue": None,
        "waited_s": None,
        "throughput_pattern": None,
        "printed_unit": None,
        "printing_ranks": None,
        "environment": "{}",
        "own_variables": [],
        "resources": '{"cpus_per_rank": 1, "gpus_per_rank": 0, "memory_per_rank": 2048, "time": 600}',
        "state": "completed",
        "attempt": "100.0",
        "started_unix_s": STARTED,
        "ended_unix_s": STARTED + 60,
        "seconds": 60.0,
        "hosts": ["host0", "host1"],
        "image_name": "torch-cpu",
        "image_digest": "sha256:" + "ab" * 32,
        "programs": "{}",
        "failure": None,
        "groups": None,
        "remarks": [],
        "independent": False,
        "pieces": 1,
        "continued_at": [],
        "unreadable_records": 0,
        "restarts": 0,
        "restarts_lost_s": None,
        "part_nodes": [],
        "repeated_steps": 0,
        "duplicate_steps": 0,
        "missing_steps": 0,
        "missing_ranks": [],
        # Rank 1 is a thousandth faster in each step, and its node's clock is the same.
        "clock_spread_s": pytest.approx(0.001 * (5 * 1 + 10 * 0.1)),
        "log_files": [f"digits/nodes2-ranks1-repeat1/logs/100.0/{log}.log" for log in logs],
    }
    assert [(step["rank"], step["step"]) for step in steps] == [
        (rank, step) for rank in (0, 1) for step in range(15)
    ]
    # The header was written two seconds into the job, and the first step began right then.
    assert [steps[0][key] for key in ("start_s", "seconds", "samples", "epoch")] == [
        2.0,
        1.0,
        32,
        0,
    ]
    assert steps[0]["data_s"] == pytest.approx(0.1)
    assert steps[0]["communication_s"] is None
    assert metrics[0]["at_s"] == pytest.approx(2 + 5 * 1 + 10 * 0.1)
    assert [(row["name"], row["value_number"], row["value_text"]) for row in metrics] == [
        ("test_accuracy", 0.95, None),
        ("weights_identical", 1.0, "true"),
    ]
    assert nodes == [
        {"node": 0, "host": "host0", "cpus": 8},
        {"node": 1, "host": "host1", "cpus": 8},
    ]


def test_only_the_attempt_of_the_result_is_measured(results: Path) -> None:
    run = plan(results, nodes=2)
    run.execute("99.0", state="failed", seconds=30.0, failure=KILLED)
    run.steps("99.0", step_s=9.9)
    run.execute("100.0")
    run.steps("100.0", step_s=0.1)
    with collected(results) as tables:
        [run_row] = fetch(tables, "SELECT state, attempt, failure FROM runs")
        [slowest] = fetch(tables, "SELECT max(seconds) AS s FROM steps WHERE step >= 5")
        [failure] = fetch(tables, "SELECT * EXCLUDE (experiment) FROM failures")
    assert run_row == {"state": "completed", "attempt": "100.0", "failure": None}
    assert slowest["s"] == 0.1
    assert failure == {
        "run_id": "nodes2-ranks1-repeat1",
        "attempt": "99.0",
        "state": "failed",
        "node": 1,
        "rank": 1,
        "cause": "killed by signal 9",
        "lost_s": 30.0,
        "log_file": "digits/nodes2-ranks1-repeat1/logs/99.0/ranks/rank-1.log",
    }


def test_a_failed_run_has_its_cause_and_no_steps(results: Path) -> None:
    run = plan(results, nodes=2)
    run.execute(state="failed", failure=KILLED)
    run.steps()
    with collected(results) as tables:
        rows = fetch(tables, "SELECT state, failure, missing_ranks FROM runs")
        assert fetch(tables, "SELECT * FROM steps") == []
    failure = "rank 1 (node 1): killed by signal 9"
    assert rows == [{"state": "failed", "failure": failure, "missing_ranks": []}]


def test_a_study_with_nothing_in_it_gives_empty_tables(results: Path) -> None:
    with collected(results) as tables:
        for table, columns in COLUMNS.items():
            described = fetch(tables, f"DESCRIBE {table}")
            assert {row["column_name"]: row["column_type"] for row in described} == columns
            assert fetch(tables, f"SELECT * FROM {table}") == []


@pytest.mark.parametrize("experiment", ['it\'s "big" [1]*?', "lr=0.1 {a,b}", "--", "ünï; DROP"])
def test_any_folder_name_is_only_a_name(results: Path, experiment: str) -> None:
    completed(results, experiment=experiment)
    completed(results, experiment="another")
    with collected(results) as tables:
        rows = fetch(tables, "SELECT experiment, count(*) AS n FROM steps GROUP BY ALL ORDER BY n")
    assert {row["experiment"]: row["n"] for row in rows} == {experiment: 15, "another": 15}


def test_the_results_folder_may_have_any_name_and_any_way_to_it(tmp_path: Path) -> None:
    results = tmp_path / "seconds=5 'x'[*]" / "site"
    completed(results)
    with collected(results / "digits" / "..") as tables:
        assert len(fetch(tables, "SELECT * FROM steps")) == 15
        assert [*fetch(tables, "SELECT * FROM steps")[0]] == [*COLUMNS["steps"]]


def test_named_runs_only(results: Path) -> None:
    wanted = completed(results, nodes=2)
    completed(results, nodes=4)
    collect(results, results / "tables", [wanted.path])
    with open_tables(results / "tables") as tables:
        assert fetch(tables, "SELECT nodes FROM runs") == [{"nodes": 2}]


def test_printed_throughput(results: Path) -> None:
    run = plan(results)
    run.execute()
    run.printed([100.0, 110.0])
    with collected(results) as tables:
        rows = fetch(tables, "SELECT monotonic_s, samples_per_s FROM printed")
        [completeness] = fetch(tables, "SELECT missing_ranks FROM runs")
    assert [row["samples_per_s"] for row in rows] == [100.0, 110.0]
    assert completeness == {"missing_ranks": [0]}


@pytest.mark.parametrize("name", ["run.json", "result.json", "provenance.json"])
def test_a_run_of_an_unknown_schema_version_is_told_and_no_other_is_lost(
    results: Path, name: str
) -> None:
    good, run = completed(results), completed(results, nodes=2)
    collect(results, results / "tables")
    content = json.loads((run.path / name).read_text())
    write_json(run.path / name, content | {"schema_version": 1})
    [problem] = problems(results)
    assert problem["run_id"] == run.run_id
    assert str(run.path / name) in problem["problem"]
    assert "schema_version is 1; this Argosy reads 2; it was written by " in problem["problem"]
    with open_tables(results / "tables") as tables:
        assert fetch(tables, "SELECT run_id FROM runs") == [{"run_id": good.run_id}]
        assert fetch(tables, "SELECT DISTINCT run_id FROM steps") == [{"run_id": good.run_id}]
    write_json(run.path / name, content)
    assert problems(results) == []
    with open_tables(results / "tables") as tables:
        assert len(fetch(tables, "SELECT run_id FROM runs")) == 2


def test_steps_as_lines_are_of_an_earlier_version(results: Path) -> None:
    run = completed(results)
    path = run.rank_file("100.0", 0)
    header = path.read_text().replace('"schema_version": 2', '"schema_version": 1')
    step = {"kind": "step", "step": 0, "start": 1.0, "seconds": 0.5, "samples": 4, "phases": {}}
    path.write_text(header + json.dumps(step) + "\n")
    run.steps_file("100.0", 0).unlink()
    [problem] = problems(results)
    said = f"{path}: its schema_version is 1; this Argosy reads 2; it was written by "
    assert problem["problem"].startswith(said)
    with open_tables(results / "tables") as tables:
        assert fetch(tables, "FROM runs") == []


def test_broken_files_are_named(results: Path) -> None:
    run = completed(results)
    (run.path / "run.json").write_text('{"schema_version": 2, "nodes": ')
    [problem] = problems(results)
    assert "run.json: cannot be read as JSON" in problem["problem"]
    (run.path / "run.json").write_text('{"schema_version": 2}')
    [problem] = problems(results)
    assert "run.json: run_id: this key is missing" in problem["problem"]


@pytest.mark.parametrize("value", ["NaN", "Infinity"])
@pytest.mark.parametrize("key", ["started", "ended", "seconds"])
def test_a_result_whose_times_are_none_is_told(results: Path, key: str, value: str) -> None:
    run = completed(results)
    content = json.loads((run.path / "result.json").read_text())
    write_json(run.path / "result.json", content | {key: float(value)})
    [problem] = problems(results)
    assert f"result.json: {key}: " in problem["problem"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
@pytest.mark.parametrize(
    "name", [".", "records", "records/100.0/rank-0.jsonl", "records/100.0/rank-0.steps"]
)
def test_what_may_not_be_read_is_named(results: Path, name: str) -> None:
    run = completed(results)
    (run.path / name).chmod(0)
    try:
        [problem] = problems(results)
    finally:
        (run.path / name).chmod(0o700)
    assert "Permission denied" in problem["problem"]
    assert name in problem["problem"] or name == "."


@pytest.mark.parametrize("name", ["rank-0", "telemetry-0"])
def test_a_file_that_cannot_be_read_at_all_costs_its_own_run_alone(
    results: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Let DuckDB read a line that is too long for it.
    monkeypatch.setattr(long_lines, "LONGEST_LINE", 1 << 40)
    good, bad = completed(results), completed(results, repeat=2)
    with (bad.records("100.0") / f"{name}.jsonl").open("a") as file:
        file.write("x" * 40_000_000)
    [problem] = problems(results)
    assert problem["run_id"] == bad.run_id
    assert f"{name}.jsonl" in problem["problem"]
    with open_tables(results / "tables") as tables:
        assert fetch(tables, "SELECT run_id FROM runs") == [{"run_id": good.run_id}]
        assert fetch(tables, "SELECT DISTINCT run_id FROM steps") == [{"run_id": good.run_id}]


def test_a_copied_run_folder_is_told(results: Path) -> None:
    run = completed(results)
    run.path.rename(run.path.with_name("backup"))
    [problem] = problems(results)
    assert "but its folder is digits/backup" in problem["problem"]


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match="no such folder"):
        collect(tmp_path / "nowhere", tmp_path / "tables")


def test_the_same_files_give_the_same_tables(results: Path) -> None:
    sample_study(results)
    collect(results, results / "tables")
    first = {path.name: path.read_bytes() for path in (results / "tables").iterdir()}
    collect(results, results / "tables")
    assert {path.name: path.read_bytes() for path in (results / "tables").iterdir()} == first
    assert {*first} == {f"{table}.{end}" for table in COLUMNS for end in ("parquet", "mark")}


def test_tables_are_not_written_through_a_link(results: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (results / "tables").symlink_to(elsewhere)
    with pytest.raises(ResultsError, match="tables: is a symbolic link"):
        collect(results, results / "tables")
    assert list(elsewhere.iterdir()) == []


def multiplied(table: Path, by: str) -> None:
    """Change a column of a table."""
    with duckdb.connect() as database:
        database.execute(
            f"COPY (SELECT * REPLACE ({by}) FROM '{table}') TO '{table}.new' "
            f"(FORMAT parquet, KV_METADATA {{schema_version: '{TABLES_VERSION}'}})"
        )
    Path(f"{table}.new").replace(table)


@pytest.mark.parametrize("forged", ["table", "table and mark", "no mark", "mark of another", "key"])
def test_tables_that_somebody_else_made_are_made_anew(
    results: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, forged: str
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    completed(results, nodes=1)
    with collected(results) as tables:
        [right] = fetch(tables, "SELECT sum(samples) AS n FROM steps")
    said: list[str] = []
    collect(results, results / "tables", say=said.append)
    assert said == ["1 runs, none of them new"]
    steps = results / "tables/steps.parquet"
    if "table" in forged:
        multiplied(steps, "samples * 10 AS samples")
    if forged == "table and mark":
        own_tables.mark(steps.rename(tmp_path / "steps.parquet"))
        (tmp_path / "steps.parquet").replace(steps)
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
        own_tables.mark(steps)
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    if forged == "no mark":
        steps.with_suffix(".mark").unlink()
    if forged == "mark of another":
        steps.with_suffix(".mark").write_text((results / "tables/runs.mark").read_text())
    if forged == "key":
        (tmp_path / "state/argosy/tables.key").write_bytes(bytes(32))
    said.clear()
    collect(results, results / "tables", say=said.append)
    table = "runs" if forged == "key" else "steps"
    assert said == [
        f"{results}/tables/{table}.parquet: not written by you, or changed since: "
        "rebuilding the tables from the run folders",
        "1 run to read, 0 unchanged, 0 unreadable",
    ]
    with open_tables(results / "tables") as tables:
        assert fetch(tables, "SELECT sum(samples) AS n FROM steps") == [right]


def test_tables_are_made_where_no_key_can_be_kept(
    results: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    completed(results, nodes=1)
    for _ in range(2):
        with collected(results) as tables:
            assert len(fetch(tables, "SELECT * FROM runs")) == 1


def test_the_key_and_a_copied_study(
    results: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    completed(results, nodes=1)
    collected(results).close()
    assert (tmp_path / "state/argosy/tables.key").stat().st_mode & 0o777 == 0o600
    copy = results.with_name("copy")
    shutil.copytree(results, copy)
    said: list[str] = []
    collect(copy, copy / "tables", say=said.append)
    assert said == ["1 runs, none of them new"]
