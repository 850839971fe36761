"""Lines that are not what they should be are counted, and the others are kept."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from study_files import STARTED, RunFiles, completed, plan

from argosy.results import collect, long_lines, steps
from argosy.results.tables import fetch, open_tables

pytestmark = pytest.mark.usefixtures("reader")

GOOD_STEP = (
    b'{"kind": "step", "step": 15, "epoch": 1, "start": 1.0, "seconds": 0.5, "samples": 4, '
    b'"phases": {}}'
)


def steps_and_unreadable(run: RunFiles) -> tuple[int, int]:
    results = run.path.parent.parent
    collect(results, results / "tables")
    with open_tables(results / "tables") as tables:
        [row] = fetch(
            tables,
            "SELECT (SELECT count(*) FROM steps) AS steps, unreadable_records FROM runs",
        )
    return row["steps"], row["unreadable_records"]


@pytest.mark.parametrize(
    ("line", "steps", "unreadable"),
    [
        (GOOD_STEP, 16, 0),
        (b"", 15, 0),
        (b'{"kind": "step", "step": 15, "ep', 15, 1),
        (b'{"kind": "st' + GOOD_STEP, 15, 1),
        (b"garbage", 15, 1),
        (b"\x00" * 4096, 15, 1),
        (b'{"kind": "metric", "name": "\xff\xfe", "value": 1, "at": 1.0}', 15, 1),
        (b"[1, 2]", 15, 1),
        (b'{"kind": "step", "step": "one", "seconds": 1.0, "samples": 1}', 15, 1),
        (b'{"kind": "step", "step": 15, "seconds": NaN, "samples": 1}', 15, 1),
        (b'{"kind": "step", "step": 15, "seconds": -1.0, "samples": 1}', 15, 1),
        (b'{"kind": "dance"}', 15, 1),
        (b'{"kind": "metric", "name": "loss", "value": NaN, "at": 1.0}', 15, 0),
    ],
)
def test_an_appended_line(tmp_path: Path, line: bytes, steps: int, unreadable: int) -> None:
    run = completed(tmp_path / "site")
    with run.rank_file("100.0", 0).open("ab") as file:
        file.write(line)
    assert steps_and_unreadable(run) == (steps, unreadable)


def step(number: str = "15", samples: str = "4", **others: str) -> bytes:
    """A step as the recorder writes it, with these texts in the place of its numbers."""
    keys = {
        "step": number,
        "epoch": "1",
        "start": "1.0",
        "seconds": "0.5",
        "samples": samples,
    } | others
    inner = ", ".join(f'"{key}": {value}' for key, value in keys.items())
    return f'{{"kind": "step", {inner}, "phases": {{}}}}'.encode()


NO_COUNTS = ("-1", "-5", "32.5", "NaN", "Infinity", "-Infinity", "1e400", "null", "[4]")


@pytest.mark.parametrize("number", [*NO_COUNTS, "2147483648", "9007199254740993"])
def test_a_step_whose_number_is_no_count_is_damaged(tmp_path: Path, number: str) -> None:
    run = completed(tmp_path / "site")
    with run.rank_file("100.0", 0).open("ab") as file:
        file.write(step(number) + b"\n" + step())
    assert steps_and_unreadable(run) == (16, 1)


@pytest.mark.parametrize("samples", [*NO_COUNTS, "1000000000000000"])
def test_a_step_whose_samples_are_no_count_is_damaged(tmp_path: Path, samples: str) -> None:
    run = completed(tmp_path / "site")
    with run.rank_file("100.0", 0).open("ab") as file:
        file.write(step(samples=samples) + b"\n" + step())
    assert steps_and_unreadable(run) == (16, 1)


@pytest.mark.parametrize("start", ["-1.0", "NaN", "1e400"])
def test_a_step_that_begins_at_no_time_is_damaged(tmp_path: Path, start: str) -> None:
    run = completed(tmp_path / "site")
    with run.rank_file("100.0", 0).open("ab") as file:
        file.write(step(start=start))
    assert steps_and_unreadable(run) == (15, 1)


@pytest.mark.parametrize(("epoch", "known"), [("1", 1), ("-1", None), ("0.5", None), ("NaN", None)])
def test_an_epoch_that_is_no_count_is_not_known(
    tmp_path: Path, epoch: str, known: int | None
) -> None:
    run = completed(tmp_path / "site")
    with run.rank_file("100.0", 0).open("ab") as file:
        file.write(step(epoch=epoch))
    assert steps_and_unreadable(run) == (16, 0)
    with open_tables(tmp_path / "site" / "tables") as tables:
        assert fetch(tables, "SELECT epoch FROM steps WHERE step = 15") == [{"epoch": known}]


@pytest.mark.parametrize(
    ("number", "samples"), [("2147483647", "999999999999999"), ("15", "32.0"), ("15", "0")]
)
def test_counts_are_kept_to_the_last_digit(tmp_path: Path, number: str, samples: str) -> None:
    run = completed(tmp_path / "site")
    with run.rank_file("100.0", 0).open("ab") as file:
        file.write(step(number, samples))
    assert steps_and_unreadable(run) == (16, 0)
    with open_tables(tmp_path / "site" / "tables") as tables:
        [row] = fetch(tables, "SELECT step, samples FROM steps ORDER BY step DESC LIMIT 1")
    assert row == {"step": int(number), "samples": int(float(samples))}


@pytest.mark.parametrize(
    "line",
    [
        '{"kind": "collective", "name": "allreduce", "bytes": 8.5, "repetition": 0, "seconds": 1}',
        '{"kind": "collective", "name": "allreduce", "bytes": 8, "repetition": 0.5, "seconds": 1}',
        '{"kind": "collective", "name": "allreduce", "bytes": 8, "repetition": 0, "seconds": NaN}',
        '{"kind": "layers", "layers": [{"name": "a", "bytes": 8.5, "ready_s": 1.0}]}',
        '{"kind": "layers", "layers": [{"name": "a", "bytes": -8, "ready_s": 1.0}]}',
    ],
)
def test_bytes_and_repetitions_are_counts_too(tmp_path: Path, line: str) -> None:
    run = completed(tmp_path / "site")
    with run.rank_file("100.0", 0).open("a") as file:
        file.write(line)
    assert steps_and_unreadable(run) == (15, 1)
    with open_tables(tmp_path / "site" / "tables") as tables:
        assert fetch(tables, "FROM collectives") == fetch(tables, "FROM layers") == []


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


@pytest.mark.parametrize("unix", ["NaN", "Infinity", "1e400"])
def test_a_clock_that_shows_no_time_tells_no_job_time(tmp_path: Path, unix: str) -> None:
    run = completed(tmp_path / "site")
    path = run.rank_file("100.0", 0)
    text = path.read_text()
    path.write_text(text.replace(json.dumps(STARTED + 2), unix, 1))
    assert path.read_text() != text
    assert steps_and_unreadable(run) == (15, 0)
    with open_tables(tmp_path / "site" / "tables") as tables:
        assert fetch(tables, "SELECT count(start_s) AS known FROM steps") == [{"known": 0}]


def test_a_training_of_millions_of_steps(tmp_path: Path) -> None:
    run = completed(tmp_path / "site")
    with run.rank_file("100.0", 0).open("ab") as file:
        file.write(step("2000000"))
    assert steps_and_unreadable(run) == (16, 0)
    with open_tables(tmp_path / "site" / "tables") as tables:
        assert fetch(tables, "SELECT missing_steps FROM runs") == [{"missing_steps": 1999985}]


HOLE = 300 << 20
MEMORY = 400 << 20
PEAK = """
import resource, sys
from pathlib import Path
from argosy.results import collect, steps
steps.is_compiled = lambda: sys.argv[1] == "True"
collect(Path(sys.argv[2]), Path(sys.argv[3]))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


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
    command = [sys.executable, "-c", PEAK, str(steps.is_compiled()), str(tmp_path / "site")]
    done = subprocess.run([*command, str(tables_dir)], capture_output=True, text=True, check=True)
    assert int(done.stdout.split()[-1]) < MEMORY
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


def test_a_rank_that_died_in_its_header(tmp_path: Path) -> None:
    run = completed(tmp_path / "site", ranks_per_node=2)
    run.rank_file("100.0", 1).write_text('{"kind": "header", "sche')
    assert steps_and_unreadable(run) == (15, 1)
    with open_tables(tmp_path / "site" / "tables") as tables:
        assert fetch(tables, "SELECT missing_ranks FROM runs") == [{"missing_ranks": [1]}]


def test_a_missing_rank_file(tmp_path: Path) -> None:
    run = completed(tmp_path / "site", nodes=3)
    run.rank_file("100.0", 1).unlink()
    assert steps_and_unreadable(run) == (30, 0)
    with open_tables(tmp_path / "site" / "tables") as tables:
        assert fetch(tables, "SELECT missing_ranks FROM runs") == [{"missing_ranks": [1]}]


def test_steps_without_a_header_have_no_job_time(tmp_path: Path) -> None:
    run = completed(tmp_path / "site")
    path = run.rank_file("100.0", 0)
    path.write_text("".join(path.read_text().splitlines(keepends=True)[1:]))
    assert steps_and_unreadable(run) == (15, 0)
    with open_tables(tmp_path / "site" / "tables") as tables:
        assert fetch(tables, "SELECT count(start_s) AS known FROM steps") == [{"known": 0}]


def test_a_phase_of_no_known_name_counts_as_time_in_no_phase(tmp_path: Path) -> None:
    run = completed(tmp_path / "site")
    run.steps(phases={"data": 0.5, "prayer": 0.5})
    assert steps_and_unreadable(run) == (15, 0)
    with open_tables(tmp_path / "site" / "tables") as tables:
        rows = fetch(tables, "SELECT DISTINCT data_s / seconds AS share FROM steps")
    assert [row["share"] for row in rows] == [0.5]


def test_steps_recorded_twice_count_once(tmp_path: Path) -> None:
    run = completed(tmp_path / "site", ranks_per_node=2)
    path = run.rank_file("100.0", 1)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines, lines[7].replace('"samples": 32', '"samples": 99'), lines[9]]))
    assert steps_and_unreadable(run) == (30, 0)
    with open_tables(tmp_path / "site" / "tables") as tables:
        assert fetch(tables, "SELECT duplicate_steps, missing_steps FROM runs") == [
            {"duplicate_steps": 2, "missing_steps": 0}
        ]
        assert fetch(tables, "SELECT DISTINCT samples FROM steps") == [{"samples": 32}]


def test_steps_that_a_rank_lacks_are_counted(tmp_path: Path) -> None:
    run = completed(tmp_path / "site", ranks_per_node=2)
    path = run.rank_file("100.0", 1)
    lines = path.read_text().splitlines(keepends=True)
    # One in the middle, and the end; one in the middle stands twice.
    path.write_text("".join([*lines[:6], *lines[7:13], lines[11]]))
    assert steps_and_unreadable(run) == (15 + 11, 0)
    with open_tables(tmp_path / "site" / "tables") as tables:
        assert fetch(tables, "SELECT duplicate_steps, missing_steps FROM runs") == [
            {"duplicate_steps": 1, "missing_steps": 4}
        ]


@pytest.mark.parametrize("value", ["-0.1", "1e400"])
def test_a_phase_that_is_no_time_makes_its_step_unreadable(tmp_path: Path, value: str) -> None:
    run = completed(tmp_path / "site")
    path = run.rank_file("100.0", 0)
    lines = path.read_text().splitlines(keepends=True)
    lines[5] = lines[5].replace('"data": 0.1', f'"data": {value}')
    path.write_text("".join(lines))
    assert steps_and_unreadable(run) == (14, 1)


def test_clocks_that_differ_are_told(tmp_path: Path) -> None:
    run = completed(tmp_path / "site", nodes=2)
    path = run.rank_file("100.0", 1)
    path.write_text(path.read_text().replace(f'"unix": {STARTED + 2}', f'"unix": {STARTED + 3602}'))
    collect(tmp_path / "site", tmp_path / "site" / "tables")
    with open_tables(tmp_path / "site" / "tables") as tables:
        [found] = fetch(tables, "SELECT clock_spread_s FROM runs")
    assert found["clock_spread_s"] == pytest.approx(3600, abs=0.1)
