"""The parts of a step add up to the step."""

from pathlib import Path

import pytest
from reports import studied
from study_files import completed, plan

from argosy.report.runs.measurements import Point
from argosy.report.topics.phases import StepTime, step_times


def times(results: Path) -> dict[tuple[str, Point], StepTime]:
    with studied(results) as tables:
        return step_times(tables)


def test_phases_and_the_rest(tmp_path: Path) -> None:
    completed(tmp_path, step_s=0.2)
    found = times(tmp_path)["digits", Point(1, 1, 1)]
    assert found.step_s == pytest.approx(0.2)
    expected = {"data": 0.02, "forward": 0.06, "backward": 0.08, "update": 0.02, "other": 0.02}
    assert found.phases_s == pytest.approx(expected)


def test_means_over_ranks_and_repeats(tmp_path: Path) -> None:
    for repeat, step_s in ((1, 0.1), (2, 0.3)):
        completed(tmp_path, step_s=step_s, nodes=2, repeat=repeat)
    found = times(tmp_path)["digits", Point(2, 2, 1)]
    # The second rank is one per mille faster than the first.
    assert found.step_s == pytest.approx(0.2 * 0.9995)
    assert sum(found.phases_s.values()) == pytest.approx(found.step_s)


def test_a_phase_that_only_some_runs_name_took_no_time_in_the_others(tmp_path: Path) -> None:
    for repeat, shares in ((1, {"data": 0.5}), (2, {})):
        run = plan(tmp_path, repeat=repeat)
        run.execute()
        run.steps(step_s=0.1, phases=shares)
    found = times(tmp_path)["digits", Point(1, 1, 1)]
    assert found.phases_s == pytest.approx({"data": 0.025, "other": 0.075})


def test_overlapping_phases_leave_no_negative_rest(tmp_path: Path) -> None:
    run = plan(tmp_path)
    run.execute()
    run.steps(phases={"backward": 0.8, "communication": 0.5})
    assert times(tmp_path)["digits", Point(1, 1, 1)].phases_s["other"] == 0


def test_runs_with_missing_ranks_are_left_out(tmp_path: Path) -> None:
    completed(tmp_path, nodes=2).steps_file("100.0", 0).unlink()
    assert times(tmp_path) == {}
