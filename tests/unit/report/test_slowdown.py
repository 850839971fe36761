"""Runs that slow down, and continued runs, are found; others are not."""

import numpy as np
import pytest
from numpy.typing import NDArray
from ugly_studies import Ugliness, step_times

from argosy.report.runs.warmup import joined, of_pieces, warm_up
from argosy.report.statistics.step_series import slowdown

STUDIES = 200


def noise(steps: int, scatter: float = 0.03, runs: int = STUDIES) -> NDArray[np.float64]:
    return step_times(Ugliness(scatter=scatter), runs, steps, np.random.default_rng(4))


def test_a_run_that_is_throttled_says_from_where_and_by_how_much() -> None:
    for run in noise(200):
        run[120:] *= 1.25
        found = warm_up(run)
        assert (found.steps, found.is_steady) == (0, False)
        assert found.slower_from == pytest.approx(120, abs=3)
        assert found.slower == pytest.approx(1.25, abs=0.03)


@pytest.mark.parametrize(
    "kind",
    [
        Ugliness(scatter=0.1),
        Ugliness(autocorrelation=0.5),
        Ugliness(heavy_tails=True),
        Ugliness(slow_saves=True),
        Ugliness(warm_up="exponential 5 %"),
        Ugliness(warm_up="step at 10 %"),
    ],
)
@pytest.mark.parametrize("steps", [40, 200])
def test_others_do_not_become_slower(kind: Ugliness, steps: int) -> None:
    runs = step_times(kind, STUDIES, steps, np.random.default_rng(5))
    assert np.mean([warm_up(run).slower_from is not None for run in runs]) <= 0.05


def test_steps_that_wander_by_themselves_do_not_become_slower() -> None:
    kind = Ugliness(autocorrelation=0.9)
    runs = step_times(kind, 2 * STUDIES, 200, np.random.default_rng(7))
    assert np.mean([warm_up(run).slower_from is not None for run in runs]) <= 0.05
    runs[:, 120:] *= 1.25
    assert np.mean([warm_up(run).slower_from is not None for run in runs]) >= 0.95


def test_a_slow_last_step_and_a_burst_are_no_slowdown() -> None:
    for run in noise(200, runs=50):
        run[-1] *= 30
        run[120:150] *= 1.5
        assert slowdown(run) is None


def test_it_is_seen_behind_a_slow_start() -> None:
    [run] = noise(200, runs=1)
    run[:20] *= 3
    run[150:] *= 1.3
    found = warm_up(run)
    assert found.steps == pytest.approx(20, abs=2)
    assert found.slower_from == pytest.approx(150, abs=3)


def test_each_job_of_a_continued_run_has_its_own_warm_up() -> None:
    right = 0
    for run in noise(210):
        for begin in (0, 70, 140):
            run[begin : begin + 15] *= 3
        found = of_pieces(run, [70, 140])
        whole = joined(found, [70, 140])
        assert whole.steps == sum(one.steps for one in found)
        assert "from step 140 on, " in whole.reason
        right += [one.steps for one in found] == [15, 15, 15] and whole.is_steady
    assert right >= 0.95 * STUDIES


def test_a_job_that_never_became_steady_is_left_out_alone() -> None:
    [run] = noise(400, runs=1)
    run[200:] *= 1 + 2 * np.exp(-np.arange(200) / 100)
    pieces = of_pieces(run, [200])
    assert [one.left_out for one in pieces] == [False, True]
    whole = joined(pieces, [200])
    assert not whole.left_out
    assert "excluded" in whole.reason
    assert joined(pieces[1:] * 2, [200]).left_out
