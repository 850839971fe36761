"""Steps, speed and silence, from the ends of records that are still being written."""

import json
import os
import time
from pathlib import Path

import pytest
import step_files
from live_study import FakeStudy, ended_in, evenly, records, starts
from study_files import RunFiles

from argosy.monitor.progress import NO_PROGRESS, last_records, read_progress
from argosy.runtime.contract.throughput import Throughput
from argosy.schedulers.base import State


def test_all_ranks_speeds_add_up(fake: FakeStudy) -> None:
    run = fake.plan(ranks_per_node=2)
    for rank in (0, 1):
        records(run, "7.0", rank, evenly(200))
    found = read_progress(run.records("7.0"), 2, time.time())
    assert (found.steps, found.samples_per_s) == (200, pytest.approx(128))


def test_only_the_last_half_minute_counts(fake: FakeStudy) -> None:
    run = fake.plan()
    slow = evenly(10, seconds=10.0)
    fast = [{"start": 100 + n, "seconds": 1.0, "samples": 32} for n in range(60)]
    records(run, "7.0", 0, slow + fast)
    assert read_progress(run.records("7.0"), 1, time.time()).samples_per_s == pytest.approx(32)


def test_a_step_longer_than_the_window_has_a_speed(fake: FakeStudy) -> None:
    run = fake.plan()
    records(run, "7.0", 0, evenly(3, seconds=100.0))
    assert read_progress(run.records("7.0"), 1, time.time()).samples_per_s == pytest.approx(0.32)


def test_time_between_steps_counts(fake: FakeStudy) -> None:
    run = fake.plan()
    records(run, "7.0", 0, [{"start": float(n), "seconds": 0.1} for n in range(100)])
    found = read_progress(run.records("7.0"), 1, time.time())
    assert found.samples_per_s == pytest.approx(32, rel=0.05)


def test_a_row_that_is_being_written_is_passed_over(fake: FakeStudy) -> None:
    run = fake.plan()
    path = records(run, "7.0", 0, evenly(20))
    with path.open("ab") as file:
        file.write(step_files.row({"step": 20})[:50])
    assert read_progress(run.records("7.0"), 1, time.time()).steps == 20


def test_no_speed_is_given_for_a_part_of_the_ranks(fake: FakeStudy) -> None:
    run = fake.plan(ranks_per_node=2)
    records(run, "7.0", 0, evenly(20))
    records(run, "7.0", 1, [])
    found = read_progress(run.records("7.0"), 2, time.time())
    assert (found.steps, found.samples_per_s) == (20, None)


def test_before_the_first_record_nothing_is_said(tmp_path: Path) -> None:
    assert read_progress(tmp_path / "none", 4, time.time()) == NO_PROGRESS


def test_a_run_that_records_nothing_any_more_is_silent(fake: FakeStudy) -> None:
    run = fake.plan()
    path = records(run, "7.0", 0, evenly(20))
    os.utime(path, (time.time() - 300,) * 2)
    found = read_progress(run.records("7.0"), 1, time.time())
    assert found.silent_s == pytest.approx(300, abs=2)
    assert found.samples_per_s is None


def test_long_steps_are_no_silence(fake: FakeStudy) -> None:
    run = fake.plan()
    path = records(run, "7.0", 0, evenly(3, seconds=100.0))
    os.utime(path, (time.time() - 300,) * 2)
    assert read_progress(run.records("7.0"), 1, time.time()).silent_s is None


def test_a_program_that_prints_its_speed_is_quoted(fake: FakeStudy) -> None:
    run = fake.plan()
    run.printed([100.0, 200.0], "7.0")
    found = read_progress(run.records("7.0"), 1, time.time())
    assert (found.steps, found.samples_per_s) == (None, 150.0)


def test_what_all_ranks_print_is_one_speed_in_its_unit(fake: FakeStudy) -> None:
    run = fake.plan(nodes=2)
    asked = Throughput("([0-9.]+) tokens/s", of="rank", rank="all", per="token")
    run.printed([100.0, 200.0], "7.0", rank=1)
    alone = read_progress(run.records("7.0"), 2, time.time(), asked)
    run.printed([50.0], "7.0")
    found = read_progress(run.records("7.0"), 2, time.time(), asked)
    assert alone.samples_per_s is None
    assert (found.samples_per_s, found.unit) == (200.0, "tokens")


def test_a_printed_speed_is_not_repeated_for_ever(fake: FakeStudy) -> None:
    run = fake.plan()
    run.printed([246.0, 246.0, 246.0], "7.0")
    path = run.records("7.0") / "printed.jsonl"
    os.utime(path, (time.time() - 42,) * 2)
    found = read_progress(run.records("7.0"), 1, time.time())
    assert found.samples_per_s is None
    assert (found.silent_s, found.silent_of) == (pytest.approx(42, abs=2), "print")


def test_soon_after_the_last_step_its_age_is_told_instead_of_a_speed(fake: FakeStudy) -> None:
    run = fake.plan()
    path = records(run, "7.0", 0, evenly(20))
    os.utime(path, (time.time() - 25,) * 2)
    found = read_progress(run.records("7.0"), 1, time.time())
    assert found.samples_per_s is None
    assert (found.silent_s, found.silent_of) == (pytest.approx(25, abs=2), "step")


def running(fake: FakeStudy, repeat: int, job: str, steps: int) -> RunFiles:
    run = fake.plan(repeat=repeat)
    starts(run, f"{job}.0")
    records(run, f"{job}.0", 0, evenly(steps))
    fake.queued(run, job, State.RUNNING)
    return run


def completed(fake: FakeStudy, repeat: int, job: str, steps: int) -> RunFiles:
    run = fake.plan(repeat=repeat)
    ended_in(run, f"{job}.0", "completed")
    records(run, f"{job}.0", 0, evenly(steps))
    return run


def test_the_total_is_that_of_a_completed_repeat(fake: FakeStudy) -> None:
    completed(fake, 1, "6", 50)
    running(fake, 2, "7", 20)
    progress = fake.look()["digits/nodes1-ranks1-repeat2"].progress
    assert (progress.steps, progress.total) == (20, 50)


def test_there_is_no_total_where_repeats_differ(fake: FakeStudy) -> None:
    completed(fake, 1, "5", 50)
    completed(fake, 2, "6", 48)
    running(fake, 3, "7", 20)
    assert fake.look()["digits/nodes1-ranks1-repeat3"].progress.total is None


def test_there_is_no_total_from_a_measurement_of_an_older_plan(fake: FakeStudy) -> None:
    older = completed(fake, 1, "6", 50)
    result = json.loads((older.path / "result.json").read_text())
    (older.path / "result.json").write_text(json.dumps({**result, "spec": "of another command"}))
    running(fake, 2, "7", 20)
    assert fake.look()["digits/nodes1-ranks1-repeat2"].progress.total is None


def test_the_total_may_come_from_an_older_job_of_the_run(fake: FakeStudy) -> None:
    completed(fake, 1, "6", 50)
    running_again = running(fake, 1, "7", 20)
    assert (running_again.path / "result.json").exists()
    assert fake.only().progress.total == 50


def test_a_tail_begins_at_a_whole_line(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_text("".join(f'{{"n": {n}}}\n' for n in range(1000)))
    assert [each["n"] for each in last_records(path, tmp_path, size=25)] == [999, 998]
