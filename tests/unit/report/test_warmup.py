"""Planted warm-up is found, and none without it."""

import time
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.signal import lfilter
from ugly_studies import Ugliness, step_times

from argosy.report.runs.warmup import WarmUp, warm_up

Vector = NDArray[np.float64]
Noise = Callable[[np.random.Generator, int], Vector]


def normal(chance: np.random.Generator, steps: int) -> Vector:
    return 0.03 * chance.standard_normal(steps)


def heavy_tailed(chance: np.random.Generator, steps: int) -> Vector:
    return 0.03 * chance.standard_t(3, steps)


def autocorrelated(chance: np.random.Generator, steps: int) -> Vector:
    return np.asarray(lfilter([0.03], [1, -0.5], chance.standard_normal(steps + 50))[50:])


def with_slow_steps(chance: np.random.Generator, steps: int) -> Vector:
    """Every hundredth step takes three times as long, for instance to save a checkpoint."""
    slow = (np.arange(steps) + chance.integers(100)) % 100 == 0
    return normal(chance, steps) + np.log(3) * slow


NOISES = (normal, heavy_tailed, autocorrelated, with_slow_steps)


def series(noise: Noise, steps: int, seed: int, warm: Vector | None = None) -> Vector:
    """Return step seconds; `warm` has factors of the first steps."""
    found = 0.2 * np.exp(noise(np.random.default_rng(seed), steps))
    if warm is not None:
        found[: warm.size] *= warm
    return found


@pytest.mark.parametrize("steps", [10, 20, 50, 200, 1000])
@pytest.mark.parametrize("noise", NOISES)
def test_none_is_found_where_there_is_none(noise: Noise, steps: int) -> None:
    found = [warm_up(series(noise, steps, seed)) for seed in range(1000)]
    assert np.mean([one.steps > 0 or not one.stationary for one in found]) <= 0.05


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(("slow", "steps"), [(3, 20), (3, 1000), (10, 50), (50, 200), (50, 1000)])
def test_a_start_at_half_the_speed_is_found_to_the_step(
    noise: Noise, slow: int, steps: int
) -> None:
    warm = np.full(slow, 2.0)
    found = [warm_up(series(noise, steps, seed, warm)) for seed in range(40)]
    assert np.mean([abs(one.steps - slow) <= 1 for one in found]) >= 0.9


@pytest.mark.parametrize("noise", NOISES)
def test_what_remains_of_a_decay_is_less_than_a_per_cent(noise: Noise) -> None:
    decay = 1 + np.exp(-np.arange(400) / 10)
    left = []
    for seed in range(40):
        steps = warm_up(series(noise, 400, seed, decay)).steps
        left.append(float(np.mean(decay[steps:])) - 1)
    assert np.mean(left) < 0.01 < np.mean(decay) - 1


@pytest.mark.parametrize("steps", [10, 30, 300])
def test_a_compilation_in_the_first_step_hides_nothing(steps: int) -> None:
    alone, before_a_slow_start = np.array([100.0]), np.array([100.0, 1.5, 1.5, 1.5, 1.5])
    for seed in range(20):
        assert warm_up(series(normal, steps, seed, alone)).steps in (1, 2)
        if steps > 10:
            found = warm_up(series(normal, steps, seed, before_a_slow_start))
            assert abs(found.steps - 5) <= 1


def test_an_outlier_after_the_first_step_is_no_warm_up() -> None:
    late = np.ones(10)
    late[4] = 20.0
    assert [warm_up(series(normal, 100, seed, late)).steps for seed in range(20)].count(0) >= 19


def test_the_reason_is_said() -> None:
    assert warm_up([0.1] * 20) == WarmUp(0, True, "none found")
    found = warm_up([0.2] * 4 + [0.1] * 16)
    assert found == WarmUp(4, True, "the first 4 steps took 2.00 times as long as the rest")


def test_a_steady_state_may_begin_late_but_not_at_the_end() -> None:
    found = warm_up([0.2] * 70 + [0.1] * 30)
    assert (found.steps, found.stationary, found.left_out) == (70, True, False)
    found = warm_up([0.2] * 92 + [0.1] * 8)
    assert (found.stationary, found.left_out) == (False, True)
    assert found.reason == ("it was still warming up when it ended; train for at least 300 steps")


@pytest.mark.parametrize("noise", NOISES)
def test_a_run_that_never_becomes_steady_is_left_out(noise: Noise) -> None:
    steps = np.arange(400)
    never = np.linspace(2, 1, 400), 1 + 2 * np.exp(-steps / 200), 1 + 2 / (1 + steps / 20) ** 1.5
    for warm in never:
        found = [warm_up(series(noise, 400, seed, warm)) for seed in range(20)]
        assert np.mean([one.left_out for one in found]) >= 0.9


@pytest.mark.parametrize("autocorrelation", [0.5, 0.9])
def test_a_power_law_that_hides_in_noise_is_left_out(autocorrelation: float) -> None:
    kind = Ugliness(warm_up="power law", autocorrelation=autocorrelation)
    found = [warm_up(run) for run in step_times(kind, 200, 200, np.random.default_rng(7))]
    assert np.mean([one.left_out for one in found]) >= 0.95


@pytest.mark.parametrize("noise", [normal, autocorrelated])
def test_what_a_slow_start_approaches_is_fitted(noise: Noise) -> None:
    warm = 1 + 2 * np.exp(-np.arange(400) / 60)
    ratios = []
    for seed in range(40):
        steps = series(noise, 400, seed, warm)
        found = warm_up(steps)
        if not found.left_out:
            assert found.excess > 1
            steady = series(noise, 400, seed).mean()
            ratios.append(steps[found.steps :].mean() / found.excess / steady)
    assert len(ratios) >= 30
    assert abs(np.mean(ratios) - 1) < 0.005 < warm[60:].mean() - 1


def test_slow_steps_later_on_are_no_warm_up() -> None:
    for begin in range(40, 160, 6):
        burst = np.ones(200)
        burst[begin : begin + 30] = 1.5
        assert warm_up(series(normal, 200, begin, burst)).steps == 0


@pytest.mark.parametrize(("steps", "left_out"), [(0, 0), (1, 0), (4, 2), (9, 4)])
def test_too_few_steps(steps: int, left_out: int) -> None:
    found = warm_up([0.1] * steps)
    assert (found.steps, found.stationary) == (left_out, False)
    assert found.reason == f"too few steps to judge: {steps}, at least 10 are needed"


def test_a_step_takes_time() -> None:
    with pytest.raises(ValueError, match="more than 0 s"):
        warm_up([0.1, 0.0])
    with pytest.raises(ValueError, match="more than 0 s"):
        warm_up([0.1, float("nan")])


def test_a_million_steps() -> None:
    many = series(autocorrelated, 1_000_000, 3, np.full(50, 2.0))
    began = time.process_time()
    assert abs(warm_up(many).steps - 50) <= 1
    # It takes 0.5 s on an idle machine.
    assert time.process_time() - began < 2
