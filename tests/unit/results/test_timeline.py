"""The table of Horovod's timeline, from whole and damaged files."""

import json
import tempfile
import tracemalloc
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from horovod_timelines import Event, add_timeline, begin, end, exchange, fused, written
from hypothesis import given, settings
from hypothesis import strategies as st
from study_files import RunFiles, completed, plan

from argosy.results import collect
from argosy.results.tables import fetch, open_tables
from argosy.results.timeline import Timeline, read_timeline

SAMPLE = Path(__file__).with_name("timeline-sample.json")
"""Of Horovod 0.28.1 with two ranks: four gradients, of which the first two waited for rank 0."""
REDUCED = ("ALLREDUCE", "GLOO_ALLREDUCE")
NEGOTIATED = ("ALLREDUCE", "NEGOTIATE_ALLREDUCE")


def read(tmp_path: Path, text: str | bytes) -> Timeline:
    path = tmp_path / "timeline.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_timeline(path, path.parent)


def counts(timeline: Timeline) -> dict[str, int]:
    return {name: one.events for (_, name), one in timeline.activities.items() if one.events}


def rows(results: Path, query: str) -> list[dict[str, Any]]:
    collect(results, results / "tables")
    with open_tables(results / "tables") as tables:
        return fetch(tables, query)


def timed(results: Path, events: Iterable[Event]) -> RunFiles:
    run = plan(results, timeline=True)
    run.execute()
    run.steps()
    add_timeline(run, events)
    return run


def test_what_horovod_itself_wrote() -> None:
    found = read_timeline(SAMPLE, SAMPLE.parent)
    assert found.unreadable == 0
    assert counts(found) == {
        "NEGOTIATE_ALLREDUCE": 4,
        "ALLREDUCE": 4,
        "INIT_FUSION_BUFFER": 4,
        "MEMCPY_IN_FUSION_BUFFER": 4,
        "GLOO_ALLREDUCE": 4,
        "MEMCPY_OUT_FUSION_BUFFER": 4,
    }
    reduced, negotiated = found.activities[REDUCED], found.activities[NEGOTIATED]
    assert (reduced.sum_us, reduced.span_us, reduced.tensors) == (21_513, 5_380, 4)
    assert (negotiated.sum_us, negotiated.span_us) == (63_282, 31_649)


@pytest.mark.parametrize("kept", [0.3, 0.5, 0.7, 0.9])
def test_a_file_that_is_cut_off_keeps_what_is_whole(tmp_path: Path, kept: float) -> None:
    text = SAMPLE.read_text()
    whole = json.loads(text)
    cut = text[: int(kept * len(text))]
    found = read(tmp_path, cut)
    begun = sum(
        cut.count(f'"name": "{event["name"]}"') > 0 for event in whole if event["ph"] == "B"
    )
    assert 0 < sum(counts(found).values()) <= begun
    # The truncated event, and the one without an end.
    ends = cut.count('"ph": "E"')
    assert sum(counts(found).values()) in (ends, ends - 1)
    assert found.unreadable > 0


@pytest.mark.parametrize("end_of_file", ["]", "", ",", ",\n", "]\n"])
def test_all_ends_that_horovod_leaves_are_good(tmp_path: Path, end_of_file: str) -> None:
    text = SAMPLE.read_text().removesuffix("]") + end_of_file
    assert read(tmp_path, text).unreadable == 0


@pytest.mark.parametrize("text", ["", "[", "[]", "[\n", " \n"])
def test_an_empty_file_holds_nothing(tmp_path: Path, text: str) -> None:
    found = read(tmp_path, text)
    assert (counts(found), found.unreadable) == ({}, 0)


@pytest.mark.parametrize(
    "damage",
    [
        '{"ph": "B", "name": "ALLR',
        '{"ph": "B", "name": "ALLREDUCE", "ts": -1, "pid": 9}',
        '{"ph": "B", "name": "ALLREDUCE", "ts": NaN, "pid": 9}',
        '{"ph": "B", "name": "ALLREDUCE", "ts": Infinity, "pid": 9}',
        '{"ph": "B", "name": "ALLREDUCE", "ts": true, "pid": 9}',
        '{"ph": "B", "name": "ALLREDUCE", "ts": 1, "pid": 1e99}',
        '{"ph": "B", "name": "ALLREDUCE", "ts": 1, "pid": 99999999999}',
        '{"ph": "B", "name": ["ALLREDUCE"], "ts": 1, "pid": 9}',
        '{"ph": "B", "ts": 1, "pid": 9}',
        '{"ph": "E", "ts": 1, "pid": 9}',
        '{"ph": "Z", "ts": 1, "pid": 9}',
        '{"ph": {}, "ts": 1, "pid": 9}',
        "{}",
        "3",
        "null",
        "\x00" * 40,
        "[" * 5000,
        '{"ph": "B", "name": "' + "A" * 999 + '", "ts": 1, "pid": 9}',
        '{"ph": "B", "name": "ALLREDUCE", "ts": ' + "9" * 9999 + ', "pid": 9}',
        # A name that Horovod did not escape.
        '{"name": "process_name", "ph": "M", "pid": 9, "args": {"name": "a "quoted" name"}}',
    ],
)
def test_damage_is_counted_and_costs_nothing_else(tmp_path: Path, damage: str) -> None:
    good = [*map(json.dumps, exchange(1000))]
    found = read(tmp_path, "[\n" + ",".join([*good[:3], damage, *good[3:]]) + "]")
    assert found.unreadable == 1
    assert found.activities[REDUCED].sum_us == 4_000
    assert found.activities["ALLREDUCE", "ALLREDUCE"].sum_us == 6_000


@pytest.mark.parametrize(
    "name", ["a},{b", "\\\\", "\u00e4 \u2028 </script>", "x' OR 1=1; --", "]", "[{"]
)
def test_odd_names_of_tensors_do_no_harm(tmp_path: Path, name: str) -> None:
    described = '{"name": "process_name", "ph": "M", "pid": 1, "args": {"name": "' + name + '"}},\n'
    found = read(tmp_path, "[\n" + described + written(exchange(0))[2:])
    assert found.unreadable == 0
    assert found.activities[REDUCED].events == 1


@settings(deadline=None, max_examples=60)
@given(place=st.integers(0, SAMPLE.stat().st_size - 1), junk=st.binary(max_size=12))
def test_no_damage_is_an_error_or_spreads(place: int, junk: bytes) -> None:
    text = SAMPLE.read_bytes()
    with tempfile.TemporaryDirectory() as folder:
        found = read(Path(folder), text[:place] + junk + text[place + len(junk) :])
    assert found.unreadable or sum(counts(found).values()) == 24
    # At most three of four tensors have the next activity of the same operation.
    assert sum(counts(found).values()) >= 24 - 15


def test_bytes_that_are_no_text_are_taken(tmp_path: Path) -> None:
    described = b'[\n{"name": "process_name", "ph": "M", "pid": 1, "args": {"name": "\xff\xfe"}},\n'
    assert counts(read(tmp_path, described + written(exchange(0))[2:].encode()))["ALLREDUCE"] == 1


def test_an_end_that_was_lost_spoils_only_its_own(tmp_path: Path) -> None:
    for lost in [place for place, event in enumerate(exchange(0)) if event["ph"] == "E"]:
        events = [*exchange(0), *exchange(100_000), *exchange(200_000)]
        del events[lost]
        found = read(tmp_path, written(events))
        assert found.unreadable >= 1
        for (_, name), activity in found.activities.items():
            assert activity.events >= 2, (lost, name)
            assert activity.sum_us <= 3 * 10_001, (lost, name)


def test_what_goes_on_at_the_end_is_counted_and_not_summed(tmp_path: Path) -> None:
    found = read(tmp_path, written([*exchange(0), begin("NEGOTIATE_ALLREDUCE", 50_000)]))
    assert found.unreadable == 1
    assert found.activities[NEGOTIATED].sum_us == found.activities[NEGOTIATED].span_us == 10_000


def test_an_end_before_its_beginning_is_damage(tmp_path: Path) -> None:
    found = read(tmp_path, written([begin("ALLREDUCE", 100), end(50)]))
    assert (counts(found), found.unreadable) == ({}, 2)


def test_tensors_in_one_buffer_take_their_time_once(tmp_path: Path) -> None:
    found = read(tmp_path, written(fused(0, tensors=20)))
    reduced = found.activities[REDUCED]
    assert (reduced.events, reduced.tensors) == (20, 20)
    assert (reduced.sum_us, reduced.span_us) == (80_000, 4_000)


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "timeline.json"
    step = ",".join(json.dumps(event) for event in fused(0, tensors=50))
    with path.open("w") as file:
        file.write("[\n" + step)
        for _ in range(500):
            file.write("," + step)
    size = path.stat().st_size
    tracemalloc.start()
    read_timeline(path, path.parent)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size > 12 << 20
    assert most < 8 << 20


def test_megabytes_without_an_event_are_damage(tmp_path: Path) -> None:
    text = b"[\n" + b"\0" * (3 << 20) + b"},{" + written(exchange(0)).encode()[3:]
    found = read(tmp_path, text)
    assert 1 <= found.unreadable <= 13
    assert found.activities[REDUCED].events == 1


def test_the_table(tmp_path: Path) -> None:
    timed(tmp_path / "site", [*fused(0, tensors=2), *fused(50_000, tensors=2)])
    found = rows(tmp_path / "site", "SELECT * FROM timeline WHERE activity = 'GLOO_ALLREDUCE'")
    assert found == [
        {
            "experiment": "digits",
            "run_id": "nodes1-ranks1-repeat1",
            "operation": "ALLREDUCE",
            "activity": "GLOO_ALLREDUCE",
            "events": 4,
            "seconds": pytest.approx(0.016),
            "span_s": pytest.approx(0.008),
            "tensors": 2,
        }
    ]


def test_what_is_damaged_is_among_the_runs_unreadable_records(tmp_path: Path) -> None:
    timed(tmp_path / "site", [*exchange(0), end(60_000), {"ph": "?"}])
    assert rows(tmp_path / "site", "SELECT timeline, unreadable_records FROM runs") == [
        {"timeline": True, "unreadable_records": 2}
    ]


def test_a_run_without_one_has_no_rows(tmp_path: Path) -> None:
    completed(tmp_path / "site")
    assert rows(tmp_path / "site", "SELECT * FROM timeline") == []
    assert rows(tmp_path / "site", "SELECT timeline FROM runs") == [{"timeline": False}]


def test_a_run_that_failed_has_no_rows(tmp_path: Path) -> None:
    run = plan(tmp_path / "site", timeline=True)
    run.execute(state="failed")
    add_timeline(run, exchange(0))
    assert rows(tmp_path / "site", "SELECT * FROM timeline") == []


def test_of_a_continued_run_the_last_job_counts(tmp_path: Path) -> None:
    run = plan(tmp_path / "site", timeline=True)
    run.execute("100.0", state="interrupted")
    run.execute("101.0")
    run.claim("101.0", continues=("100.0", 5))
    run.steps("100.0", steps=5)
    run.steps("101.0", first_step=5)
    add_timeline(run, [*exchange(0), *exchange(100_000)], "100.0")
    add_timeline(run, exchange(0), "101.0")
    query = "SELECT events FROM timeline WHERE activity = 'ALLREDUCE'"
    assert rows(tmp_path / "site", query) == [{"events": 1}]


def test_rows_of_runs_that_did_not_change_are_kept(tmp_path: Path) -> None:
    timed(tmp_path / "site", exchange(0))
    query = "SELECT count(*) AS n FROM timeline"
    (before,) = rows(tmp_path / "site", query)
    completed(tmp_path / "site", repeat=2)
    assert rows(tmp_path / "site", query) == [before]


def test_a_file_that_cannot_be_read_is_a_problem_of_its_run_alone(tmp_path: Path) -> None:
    run = timed(tmp_path / "site", exchange(0))
    completed(tmp_path / "site", repeat=2)
    path = run.records("100.0") / "timeline.json"
    path.unlink()
    # A folder with this name is listed as a file, and is unreadable for root too.
    path.symlink_to("/proc/self/mem")
    found = rows(tmp_path / "site", "SELECT run_id FROM problems")
    assert found == [{"run_id": run.run_id}]
    assert len(rows(tmp_path / "site", "SELECT run_id FROM runs")) == 1
