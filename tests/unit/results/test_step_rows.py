"""The tables contain all recorded steps; invalid rows are counted."""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import step_files
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from peak_memory import peak_of_collect
from step_files import append, change, change_clock, header, row, rows, write_rows
from study_files import STARTED, RunFiles, completed, plan

from argosy.results import collect
from argosy.results import step_rows as step_stream
from argosy.results.tables import PHASES, fetch, open_tables
from argosy.runtime.contract import steps as step_rows
from argosy.runtime.contract.steps import MOST_SAMPLES, MOST_STEP, ROW_BYTES

NEXT = {"step": 15, "epoch": 1, "samples": 4}
"""The step after the last one of `completed`."""
NO_TIMES = (-1.0, -math.inf, math.inf, 2e300)


def collected(run: RunFiles) -> None:
    site = run.path.parent.parent
    collect(site, site / "tables")


def table(run: RunFiles, query: str) -> list[dict[str, Any]]:
    with open_tables(run.path.parent.parent / "tables") as tables:
        return fetch(tables, query)


def steps_and_unreadable(run: RunFiles) -> tuple[int, int]:
    collected(run)
    query = "SELECT (SELECT count(*) FROM steps) AS steps, unreadable_records FROM runs"
    [found] = table(run, query)
    return found["steps"], found["unreadable_records"]


def problem_of(run: RunFiles) -> str:
    collected(run)
    [found] = table(run, "SELECT problem FROM problems")
    assert table(run, "FROM runs") == table(run, "FROM steps") == []
    return str(found["problem"])


TIME = st.floats(0, 1e300)
STEP = st.fixed_dictionaries(
    {
        "epoch": st.integers(0, MOST_STEP),
        "samples": st.integers(0, MOST_SAMPLES),
        "start": TIME,
        "seconds": TIME,
        "phases": st.dictionaries(st.sampled_from(PHASES), TIME),
    }
)
OF_RANK = st.dictionaries(st.integers(0, MOST_STEP), STEP, max_size=12)
HARD = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def as_row(rank: int, number: int, step: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row of `steps` for a step; the rank's clock starts with the job."""
    times = {f"{phase}_s": step["phases"].get(phase) for phase in PHASES}
    whole = {name: step[name] for name in ("epoch", "samples", "seconds")}
    return {"rank": rank, "step": number, "start_s": step["start"], **whole, **times}


@pytest.mark.slow
@HARD
@given(ranks=st.lists(OF_RANK, min_size=1, max_size=3), part_rows=st.sampled_from([1, 5, 20_000]))
def test_the_tables_say_what_was_recorded(
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    ranks: list[dict[int, dict[str, Any]]],
    part_rows: int,
) -> None:
    monkeypatch.setattr(step_stream, "_PART_ROWS", part_rows)
    run = plan(tmp_path_factory.mktemp("study") / "site", ranks_per_node=len(ranks))
    run.execute()
    for rank, steps in enumerate(ranks):
        begin = header(rank, unix=STARTED, monotonic=0.0)
        given = [row({"step": number, **step}) for number, step in steps.items()]
        write_rows(run.steps_file("100.0", rank), [begin, *given])
    collected(run)
    found = table(run, "SELECT * EXCLUDE (experiment, run_id) FROM steps")
    expected = [
        as_row(rank, number, step)
        for rank, steps in enumerate(ranks)
        for number, step in steps.items()
    ]
    assert found == expected
    [odd] = table(run, "SELECT unreadable_records, duplicate_steps, repeated_steps FROM runs")
    assert set(odd.values()) == {0}


@pytest.mark.slow
@HARD
@given(first=st.integers(1, 30), until=st.integers(0, 30), after=st.integers(1, 30))
def test_a_continued_run_has_each_step_once(
    tmp_path_factory: pytest.TempPathFactory, first: int, until: int, after: int
) -> None:
    until = min(first, until)
    run = plan(tmp_path_factory.mktemp("study") / "site")
    run.execute("100.0", state="interrupted")
    run.steps("100.0", steps=first, step_s=0.25)
    run.execute("101.0")
    run.claim("101.0", continues=("100.0", until))
    run.steps("101.0", first_step=until, steps=until + after, step_s=0.5, warm_up_s=0.5)
    collected(run)
    found = table(run, "SELECT step, seconds FROM steps WHERE step >= 5")
    assert found == [
        {"step": step, "seconds": 0.25 if step < until else 0.5} for step in range(5, until + after)
    ]
    [counts] = table(run, "SELECT repeated_steps, duplicate_steps, unreadable_records FROM runs")
    assert list(counts.values()) == [first - until, 0, 0]


def changed(results: Path, changes: Sequence[Callable[[bytes], bytes]]) -> RunFiles:
    """Return a run with one rank for each change to a file of 15 steps."""
    run = completed(results, ranks_per_node=len(changes))
    for rank, changed_as in enumerate(changes):
        path = run.steps_file("100.0", rank)
        path.write_bytes(changed_as(path.read_bytes()))
    return run


def counts(run: RunFiles) -> list[int]:
    """Count the steps of each rank with steps."""
    found = table(run, "SELECT count(*) AS n FROM steps GROUP BY rank ORDER BY rank")
    return [row["n"] for row in found]


def test_a_file_that_was_cut_off_anywhere_has_its_whole_rows(tmp_path: Path) -> None:
    sizes = range(14 * ROW_BYTES, 16 * ROW_BYTES + 1)
    run = changed(tmp_path / "site", [lambda file, n=size: file[:n] for size in sizes])
    cut = sum(size % ROW_BYTES > 0 for size in sizes)
    assert steps_and_unreadable(run)[1] == cut == 2 * (ROW_BYTES - 1)
    assert counts(run) == [size // ROW_BYTES - 1 for size in sizes]


@pytest.mark.parametrize("size", [0, 1, 8, 50, ROW_BYTES - 1])
def test_a_rank_that_died_in_its_header(tmp_path: Path, size: int) -> None:
    run = completed(tmp_path / "site", ranks_per_node=2)
    path = run.steps_file("100.0", 1)
    path.write_bytes(path.read_bytes()[:size])
    assert steps_and_unreadable(run) == (15, size > 0)
    assert table(run, "SELECT missing_ranks FROM runs") == [{"missing_ranks": [1]}]


def test_rows_after_half_a_row_are_none(tmp_path: Path) -> None:
    later = b"".join(row({"step": 15 + number, "seconds": number / 7}) for number in range(4))
    kept = range(1, ROW_BYTES)
    run = changed(
        tmp_path / "site", [lambda file, n=n: file[: 15 * ROW_BYTES + n] + later for n in kept]
    )
    # Fourteen rows are whole; the rest has the length of four rows and a part of one.
    assert steps_and_unreadable(run) == (14 * len(kept), 5 * len(kept))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda part: bytes(ROW_BYTES),
        lambda part: b"\xff" * ROW_BYTES,
        lambda part: part[:64] + bytes(ROW_BYTES - 64),
        lambda part: bytes(8) + part[8:],
        lambda part: part[:-8] + bytes(8),
        lambda part: part[8:] + part[:8],
        lambda part: np.frombuffer(part, "<u8").astype(">u8").tobytes(),
    ],
)
def test_a_damaged_row_is_counted_and_the_others_stay(
    tmp_path: Path, spoil: Callable[[bytes], bytes]
) -> None:
    run = completed(tmp_path / "site")
    path = run.steps_file("100.0", 0)
    parts = rows(path)
    parts[7] = spoil(parts[7])
    write_rows(path, parts)
    assert steps_and_unreadable(run) == (14, 1)
    assert [found["step"] for found in table(run, "SELECT step FROM steps")] == [
        *range(6),
        *range(7, 15),
    ]


def flipped(file: bytes, bit: int) -> bytes:
    """Return the file with one bit of its seventh step flipped."""
    place, mask = 7 * ROW_BYTES + bit // 8, 1 << bit % 8
    return file[:place] + bytes([file[place] ^ mask]) + file[place + 1 :]


@pytest.mark.slow
def test_any_changed_bit_makes_a_row_damaged(tmp_path: Path) -> None:
    bits = range(8 * ROW_BYTES)
    run = changed(tmp_path / "site", [lambda file, bit=bit: flipped(file, bit) for bit in bits])
    assert steps_and_unreadable(run) == (14 * len(bits), len(bits))


IMPOSSIBLE: list[dict[str, Any]] = [
    *({"step": number} for number in (-1, MOST_STEP + 1, 2**63 - 1)),
    *({"samples": number} for number in (-1, MOST_SAMPLES + 1, -(2**63))),
    *({name: time} for name in ("start", "seconds") for time in (*NO_TIMES, math.nan)),
    *({"phases": {phase: time}} for phase in PHASES for time in NO_TIMES),
]


def test_a_step_that_cannot_be_is_damaged(tmp_path: Path) -> None:
    both = [row(NEXT | values) + row(NEXT) for values in IMPOSSIBLE]
    run = changed(tmp_path / "site", [lambda file, more=more: file + more for more in both])
    assert steps_and_unreadable(run) == (16 * len(both), len(both))


@pytest.mark.parametrize("epoch", [-1, MOST_STEP + 1, -(2**63)])
def test_an_epoch_that_is_no_count_is_not_known(tmp_path: Path, epoch: int) -> None:
    run = completed(tmp_path / "site")
    append(run.steps_file("100.0", 0), NEXT | {"epoch": epoch})
    assert steps_and_unreadable(run) == (16, 0)
    assert table(run, "SELECT epoch FROM steps WHERE step = 15") == [{"epoch": None}]


def test_counts_are_kept_to_the_last_digit(tmp_path: Path) -> None:
    run = completed(tmp_path / "site")
    append(run.steps_file("100.0", 0), {"step": MOST_STEP, "samples": MOST_SAMPLES})
    assert steps_and_unreadable(run) == (16, 0)
    query = "SELECT step, samples FROM steps ORDER BY step DESC LIMIT 1"
    assert table(run, query) == [{"step": MOST_STEP, "samples": MOST_SAMPLES}]


def test_a_training_of_millions_of_steps(tmp_path: Path) -> None:
    run = completed(tmp_path / "site")
    append(run.steps_file("100.0", 0), {"step": 2_000_000})
    assert steps_and_unreadable(run) == (16, 0)
    assert table(run, "SELECT missing_steps FROM runs") == [{"missing_steps": 1999985}]


def another_header(**values: int) -> bytes:
    """Return the header of rank 0 with changed numbers and a correct checksum."""
    names = ("byte_order", "version", "header_bytes", "row_bytes", "rank", "node")
    magic, *numbers, unix, monotonic = step_rows.HEADER.unpack_from(header())
    changed = dict(zip(names, numbers, strict=True)) | values
    body = step_rows.HEADER.pack(magic, *changed.values(), unix, monotonic)
    return step_files.with_check(body)


@pytest.mark.parametrize(
    ("begin", "said"),
    [
        (another_header(byte_order=0x04030201), "is not little-endian"),
        (another_header(version=2), "its version is 2; this Argosy reads 1"),
        (another_header(row_bytes=2**32 - 1), "its header is damaged"),
        (another_header(row_bytes=0), "its header is damaged"),
        (another_header(header_bytes=8), "its header is damaged"),
        (another_header(rank=3), "belongs to rank 3 by its header"),
        (header()[:-1] + b"\0", "its header is damaged"),
        (b"PAR1" * 24, "is not a file of steps"),
        (bytes(ROW_BYTES), "is not a file of steps"),
        (b'{"kind": "header", "schema_version": 1}\n' * 3, "is not a file of steps"),
    ],
)
def test_a_file_that_is_not_one_of_these_steps_is_told(
    tmp_path: Path, begin: bytes, said: str
) -> None:
    run = completed(tmp_path / "site")
    path = run.steps_file("100.0", 0)
    write_rows(path, [begin, *rows(path)[1:]])
    assert problem_of(run).startswith(f"{path}: {said}")


@pytest.mark.slow
@HARD
@given(seed=st.integers(0, 2**32), size=st.integers(0, 2000), has_header=st.booleans())
def test_whatever_stands_in_a_file_no_number_is_made_of_it(
    tmp_path_factory: pytest.TempPathFactory, seed: int, size: int, has_header: bool
) -> None:
    run = completed(tmp_path_factory.mktemp("study") / "site")
    begin = header() if has_header else b""
    run.steps_file("100.0", 0).write_bytes(begin + random.Random(seed).randbytes(size))
    collected(run)
    assert table(run, "FROM steps") == []
    told = table(run, "FROM problems") + table(run, "FROM runs WHERE unreadable_records > 0")
    assert len(told) == (size > 0)


@pytest.mark.parametrize("unix", [math.nan, math.inf, -math.inf])
def test_a_clock_that_shows_no_time_tells_no_job_time(tmp_path: Path, unix: float) -> None:
    run = completed(tmp_path / "site")
    change_clock(run.steps_file("100.0", 0), 0, unix, 1000.0)
    assert steps_and_unreadable(run) == (15, 0)
    assert table(run, "SELECT count(start_s) AS known FROM steps") == [{"known": 0}]


def test_clocks_that_differ_are_told(tmp_path: Path) -> None:
    run = completed(tmp_path / "site", nodes=2)
    change_clock(run.steps_file("100.0", 1), 1, STARTED + 3602, 1001.0)
    collected(run)
    [found] = table(run, "SELECT clock_spread_s FROM runs")
    assert found["clock_spread_s"] == pytest.approx(3600, abs=0.1)


@pytest.mark.parametrize("name", ["rank-1.steps", "rank-1.jsonl"])
def test_a_missing_file_of_a_rank(tmp_path: Path, name: str) -> None:
    run = completed(tmp_path / "site", nodes=3)
    (run.records("100.0") / name).unlink()
    is_of_steps = name.endswith(".steps")
    assert steps_and_unreadable(run) == (30 if is_of_steps else 45, 0)
    expected = [{"missing_ranks": [1] if is_of_steps else []}]
    assert table(run, "SELECT missing_ranks FROM runs") == expected


def test_steps_recorded_twice_count_once(tmp_path: Path) -> None:
    run = completed(tmp_path / "site", ranks_per_node=2)
    path = run.steps_file("100.0", 1)
    parts = rows(path)
    write_rows(path, [*parts, parts[7], parts[9]])
    change(path, 16, samples=99)
    assert steps_and_unreadable(run) == (30, 0)
    assert table(run, "SELECT duplicate_steps, missing_steps FROM runs") == [
        {"duplicate_steps": 2, "missing_steps": 0}
    ]
    assert table(run, "SELECT DISTINCT samples FROM steps") == [{"samples": 32}]


def test_steps_that_a_rank_lacks_are_counted_in_any_order(tmp_path: Path) -> None:
    run = completed(tmp_path / "site", ranks_per_node=2)
    path = run.steps_file("100.0", 1)
    begin, *parts = rows(path)
    # One step in the middle and the last ones are missing; one in the middle is there twice.
    kept = [*parts[:5], *parts[6:12], parts[10]]
    random.Random(0).shuffle(kept)
    write_rows(path, [begin, *kept])
    assert steps_and_unreadable(run) == (15 + 11, 0)
    assert table(run, "SELECT duplicate_steps, missing_steps FROM runs") == [
        {"duplicate_steps": 1, "missing_steps": 4}
    ]


def test_a_file_that_becomes_shorter_meanwhile_costs_its_run_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, bad = completed(tmp_path / "site"), completed(tmp_path / "site", repeat=2)
    path = bad.steps_file("100.0", 0)
    read = step_stream.read_rows

    def shortened(places: Any) -> Any:
        path.write_bytes(path.read_bytes()[: 5 * ROW_BYTES])
        return read(places)

    monkeypatch.setattr(step_stream, "read_rows", shortened)
    collected(good)
    problem = {"run_id": bad.run_id, "problem": f"{path}: was shortened while it was read"}
    assert table(good, "SELECT run_id, problem FROM problems") == [problem]
    assert table(good, "SELECT DISTINCT run_id FROM steps") == [{"run_id": good.run_id}]


def test_a_file_of_nothing_costs_little_memory(tmp_path: Path) -> None:
    run = completed(tmp_path / "site")
    with run.steps_file("100.0", 0).open("r+b") as file:
        file.truncate((1 + 2_000_000) * ROW_BYTES)
    assert peak_of_collect(tmp_path / "site") < 400 << 20
    assert table(run, "SELECT unreadable_records AS n FROM runs") == [{"n": 2_000_000 - 15}]
