"""Throughput of runs whose numbers are known by construction."""

import json
from pathlib import Path

import pytest
from reports import studied
from study_files import completed, plan

from argosy.report.runs.measurements import Measurement, measurements


def measured(results: Path) -> list[Measurement]:
    with studied(results) as tables:
        return measurements(tables)


def test_all_samples_over_the_slowest_ranks_time_without_warm_up(tmp_path: Path) -> None:
    completed(tmp_path, step_s=0.2, nodes=2, ranks_per_node=2)
    [run] = measured(tmp_path)
    # After five slow steps: 10 steps of 32 samples in each of 4 ranks; rank 0 is the slowest.
    assert run.samples_per_s == pytest.approx(4 * 10 * 32 / (10 * 0.2))
    assert (run.source, run.left_out, run.point.ranks) == ("steps", None, 4)


def test_each_job_of_a_continued_run_starts_cold(tmp_path: Path) -> None:
    run = plan(tmp_path, nodes=2)
    run.claim("7.0")
    run.execute("7.0", state="interrupted")
    run.steps("7.0", steps=75)
    run.claim("8.0", continues=("7.0", 60))
    run.execute("8.0")
    run.steps("8.0", first_step=60, steps=120)
    [found] = measured(tmp_path)
    assert found.samples_per_s == pytest.approx(2 * 32 / 0.1)
    assert found.warm_up is not None
    assert (found.warm_up.steps, found.warm_up.is_steady) == (10, True)


def test_printed_throughput_where_there_are_no_steps(tmp_path: Path) -> None:
    run = plan(tmp_path)
    run.execute()
    run.printed([30.0, 50.0, *[100.0, 104.0] * 10])
    [found] = measured(tmp_path)
    assert (found.samples_per_s, found.source) == (102.0, "printed")


@pytest.mark.parametrize(
    ("of_ranks", "rate", "left_out"),
    [
        # Unequal numbers: each rank has a mean of its own.
        ([[30.0, 30.0, 30.0], [20.0]], 50.0, None),
        ([[30.0]], None, "1 of its 2 ranks printed no throughput"),
        ([[30.0], [0.0]], None, "it printed only 0 as throughput"),
    ],
)
def test_what_all_ranks_print_adds_up(
    tmp_path: Path, of_ranks: list[list[float]], rate: float | None, left_out: str | None
) -> None:
    asked = {"pattern": "([0-9.]+) tokens/s", "of": "rank", "rank": "all", "per": "token"}
    run = plan(tmp_path, nodes=2, throughput=asked)
    run.execute()
    for rank, values in enumerate(of_ranks):
        run.printed(values, rank=rank)
    [found] = measured(tmp_path)
    assert (found.samples_per_s, found.left_out, found.unit) == (rate, left_out, "tokens")


def test_a_program_on_the_head_alone_has_what_it_printed(tmp_path: Path) -> None:
    run = plan(tmp_path, nodes=2, launcher="ray", throughput="([0-9.]+) samples/s")
    run.execute()
    run.printed([100.0])
    [found] = measured(tmp_path)
    assert (found.samples_per_s, found.left_out) == (100.0, None)


def test_steps_go_before_printed_throughput(tmp_path: Path) -> None:
    completed(tmp_path, step_s=0.1).printed([1.0])
    [found] = measured(tmp_path)
    assert (found.samples_per_s, found.source) == (pytest.approx(320), "steps")


def test_a_run_with_a_missing_rank_is_left_out(tmp_path: Path) -> None:
    run = completed(tmp_path, nodes=3)
    run.steps_file("100.0", 2).unlink()
    [found] = measured(tmp_path)
    assert found.samples_per_s is None
    assert found.left_out == "no steps of 1 of its 3 ranks"


@pytest.mark.parametrize("warm_up_s", [0.1, 0.3])
def test_only_steps_that_were_slow_are_left_out(tmp_path: Path, warm_up_s: float) -> None:
    run = plan(tmp_path)
    run.execute()
    run.steps(step_s=0.1, steps=60, warm_up_s=warm_up_s)
    [found] = measured(tmp_path)
    assert found.samples_per_s == pytest.approx(320)
    assert found.warm_up
    assert (found.warm_up.steps, found.warm_up.stationary) == (5 if warm_up_s > 0.1 else 0, True)


def test_a_run_too_short_to_tell_is_measured_and_marked(tmp_path: Path) -> None:
    run = plan(tmp_path)
    run.execute()
    run.steps(steps=5)
    [found] = measured(tmp_path)
    assert found.samples_per_s == pytest.approx(32)
    assert found.warm_up
    assert (found.warm_up.steps, found.warm_up.stationary) == (2, False)
    assert found.warm_up.reason == "too few steps to judge: 5, at least 10 are needed"


def test_steps_that_took_no_time_give_no_throughput(tmp_path: Path) -> None:
    run = plan(tmp_path)
    run.execute()
    run.steps(step_s=0.0, warm_up_s=0.0)
    [found] = measured(tmp_path)
    assert found.left_out == "no samples in its steady state"


@pytest.mark.parametrize(
    ("groups", "apart"),
    [(4, "none was connected to another"), (2, "they are 2 groups"), (1, None), (None, None)],
)
def test_a_run_whose_ranks_never_met_is_left_out(
    tmp_path: Path, groups: int | None, apart: str | None
) -> None:
    run = completed(tmp_path, nodes=2, ranks_per_node=2)
    path = run.path / "result.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "groups": groups}))
    [found] = measured(tmp_path)
    assert (found.samples_per_s is None) == bool(apart)
    if apart:
        assert found.left_out and found.left_out.startswith(f"its 4 ranks never met ({apart})")


def test_a_program_that_never_used_the_commands_beside_it_is_left_out(tmp_path: Path) -> None:
    run = completed(tmp_path, nodes=2)
    asked = {"per": "job", "beside": {"each": [["serve"]]}}
    for name, more in (("run.json", asked), ("result.json", {"groups": 2})):
        path = run.path / name
        path.write_text(json.dumps({**json.loads(path.read_text()), **more}))
    [found] = measured(tmp_path)
    assert found.samples_per_s is None
    assert found.left_out and found.left_out.startswith(
        "its program and the commands beside it on 2 nodes never met (they are 2 groups), so it did"
    )


def test_what_ranks_print_that_never_met_is_left_out(tmp_path: Path) -> None:
    run = plan(tmp_path, nodes=2)
    run.execute()
    run.printed([100.0, 104.0])
    path = run.path / "result.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "groups": 2}))
    [found] = measured(tmp_path)
    assert (found.samples_per_s, found.source) == (None, None)


def test_a_run_without_any_measurement_is_left_out(tmp_path: Path) -> None:
    plan(tmp_path).execute()
    [found] = measured(tmp_path)
    assert found.left_out == "no steps recorded and no throughput printed"


def test_runs_that_are_not_completed_give_none(tmp_path: Path) -> None:
    plan(tmp_path, repeat=1)
    plan(tmp_path, repeat=2).execute(state="failed")
    assert measured(tmp_path) == []
