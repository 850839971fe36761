"""Invalid lines are counted, and the others are kept."""

import json
from pathlib import Path

import pytest
from peak_memory import peak_of_collect
from study_files import STARTED, RunFiles, completed, plan

from argosy.results import collect, long_lines
from argosy.results.tables import fetch, open_tables


def steps_and_unreadable(run: RunFiles) -> tuple[int, int]:
    results = run.path.parent.parent
    collect(results, results / "tables")
    with open_tables(results / "tables") as tables:
        [row] = fetch(
            tables, "SELECT (SELECT count(*) FROM steps) AS steps, unreadable_records FROM runs"
        )
    return row["steps"], row["unreadable_records"]


@pytest.mark.parametrize(
    ("line", "steps", "unreadable"),
    [
        (b"", 15, 0),
        (b'{"kind": "metr', 15, 1),
        (b'{"kind": "me{"kind": "metric", "name": "loss", "value": 1, "at": 1.0}', 15, 1),
        (b'{"kind": "step", "step": 15, "seconds": 1.0, "samples": 1}', 15, 1),
        (b"garbage", 15, 1),
        (b"\x00" * 4096, 15, 1),
        (b'{"kind": "metric", "name": "\xff\xfe", "value": 1, "at": 1.0}', 15, 1),
        (b"[1, 2]", 15, 1),
        (b'{"kind": "dance"}', 15, 1),
        (b'{"kind": "metric", "name": "loss", "value": NaN, "at": 1.0}', 15, 0),
    ],
)
def test_an_appended_line(tmp_path: Path, line: bytes, steps: int, unreadable: int) -> None:
    run = completed(tmp_path / "site")
    with run.rank_file("100.0", 0).open("ab") as file:
        file.write(line)
    assert steps_and_unreadable(run) == (steps, unreadable)


@pytest.mark.parametrize("value", ["-5", "NaN", "Infinity", "null"])
def test_a_printed_throughput_that_is_none_is_counted(tmp_path: Path, value: str) -> None:
    run = plan(tmp_path / "site")
    run.execute()
    run.printed([100.0])
    with (run.records("100.0") / "printed.jsonl").open("a") as file:
        file.write(f'{{"kind": "printed", "samples_per_second": {value}, "at": 1.0}}\n')
        file.write('{"kind": "refused", "text": "-5", "at": 2.0}\n')
    assert steps_and_unreadable(run) == (0, 2)
    with open_tables(tmp_path / "site" / "tables") as tables:
        assert fetch(tables, "SELECT samples_per_s FROM printed") == [{"samples_per_s": 100.0}]


@pytest.mark.parametrize("records_more", [True, False])
def test_printed_metrics_are_metrics_of_the_run(tmp_path: Path, records_more: bool) -> None:
    """For ranks without records, the agent's lines give the clock."""
    run = plan(tmp_path / "site")
    run.execute()
    if records_more:
        run.steps()
    run.printed([100.0])
    clock = STARTED - 1000.0
    with (run.records("100.0") / "printed.jsonl").open("a") as file:
        for at, value in ((1005.0, 0.5), (1003.0, 0.7), (1004.0, "nan")):
            record = {"kind": "metric", "name": "loss", "value": value, "at": at, "clock": clock}
            file.write(json.dumps(record) + "\n")
        file.write('{"kind": "metric", "name": "loss", "at": 1.0}\n')
        file.write('{"kind": "refused", "name": "loss", "text": "loss x", "at": 1.0}\n')
    assert steps_and_unreadable(run)[1] == 2
    query = "SELECT rank, name, value_number, value_text, at_s FROM metrics ORDER BY at_s"
    with open_tables(tmp_path / "site" / "tables") as tables:
        rows = [tuple(row.values()) for row in fetch(tables, query)]
        assert fetch(tables, "SELECT samples_per_s FROM printed") == [{"samples_per_s": 100.0}]
    assert rows == [
        (0, "loss", 0.7, None, 3.0),
        (0, "loss", None, "nan", 4.0),
        (0, "loss", 0.5, None, 5.0),
    ]


HOLE = 300 << 20
MEMORY = 400 << 20


@pytest.mark.parametrize("name", ["rank-0", "telemetry-0", "printed"])
def test_a_line_without_end_costs_itself_alone_and_little_memory(tmp_path: Path, name: str) -> None:
    run = completed(tmp_path / "site")
    run.telemetry(0)
    run.printed([100.0])
    path = run.records("100.0") / f"{name}.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    with path.open("wb") as file:
        file.write(lines[0])
        file.seek(HOLE, 1)
        file.write(b"\n" + b"".join(lines[1:]))
    tables_dir = tmp_path / "site" / "tables"
    assert peak_of_collect(tmp_path / "site") < MEMORY
    with open_tables(tables_dir) as tables:
        assert fetch(tables, "SELECT unreadable_records FROM runs") == [{"unreadable_records": 1}]
        [found] = fetch(
            tables,
            "SELECT (SELECT count(*) FROM steps) AS steps, (SELECT count(*) FROM telemetry) AS samples, "
            "(SELECT count(*) FROM printed) AS printed, (SELECT count(*) FROM problems) AS problems",
        )
    assert found == {"steps": 15, "samples": 3, "printed": 1, "problems": 0}


def test_long_lines_are_told_from_those_beside_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_lines, "LONGEST_LINE", 1000)
    run = completed(tmp_path / "site")
    metric = '{"kind": "metric", "name": "note", "value": "%s", "at": 1.0}\n'
    room = 1000 - len(metric % "")
    with run.rank_file("100.0", 0).open("a") as file:
        for length in (room, room + 1, 5000, room, 999_999, 0):
            file.write(metric % ("x" * length))
        file.write("y" * 3000)
    assert steps_and_unreadable(run) == (15, 4)
    with open_tables(tmp_path / "site" / "tables") as tables:
        rows = fetch(tables, "SELECT length(value_text) AS n FROM metrics ORDER BY n")
    assert [row["n"] for row in rows] == [0, room, room]


def test_a_phase_of_no_known_name_counts_as_time_in_no_phase(tmp_path: Path) -> None:
    run = completed(tmp_path / "site")
    run.steps(phases={"data": 0.5, "prayer": 0.5})
    assert steps_and_unreadable(run) == (15, 0)
    with open_tables(tmp_path / "site" / "tables") as tables:
        rows = fetch(tables, "SELECT DISTINCT data_s / seconds AS share FROM steps")
    assert [row["share"] for row in rows] == [0.5]


def test_a_header_alone_is_no_damage_and_half_of_one_is(tmp_path: Path) -> None:
    run = completed(tmp_path / "site", ranks_per_node=2)
    path = run.rank_file("100.0", 1)
    path.write_text(path.read_text()[:40])
    assert steps_and_unreadable(run) == (30, 1)


def test_metrics_without_a_header_have_no_job_time(tmp_path: Path) -> None:
    run = completed(tmp_path / "site", metrics={"loss": 0.5})
    path = run.rank_file("100.0", 0)
    path.write_text("".join(path.read_text().splitlines(keepends=True)[1:]))
    assert steps_and_unreadable(run) == (15, 0)
    with open_tables(tmp_path / "site" / "tables") as tables:
        assert fetch(tables, "SELECT name, at_s FROM metrics") == [{"name": "loss", "at_s": None}]


@pytest.mark.parametrize("unix", ["NaN", "Infinity", "1e400"])
def test_a_clock_that_shows_no_time_tells_no_job_time(tmp_path: Path, unix: str) -> None:
    run = completed(tmp_path / "site", metrics={"loss": 0.5})
    path = run.rank_file("100.0", 0)
    text = path.read_text()
    path.write_text(text.replace(json.dumps(STARTED + 2), unix, 1))
    assert path.read_text() != text
    assert steps_and_unreadable(run) == (15, 0)
    with open_tables(tmp_path / "site" / "tables") as tables:
        assert fetch(tables, "SELECT count(at_s) AS known FROM metrics") == [{"known": 0}]
