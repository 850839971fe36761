"""Lines that are not what they should be are counted, and the others are kept."""

from pathlib import Path

import pytest
from study_files import STARTED, RunFiles, completed

from argosy.results import collect
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
