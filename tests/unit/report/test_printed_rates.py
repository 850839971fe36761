"""What a run's printed numbers tell of its throughput."""

from collections.abc import Sequence

import numpy as np
import pytest

from argosy.report.runs.measurements import PrintedRate, printed_rate


def by_steps(rates: Sequence[float], samples: float = 64.0) -> PrintedRate:
    """A program that prints after the same number of samples."""
    return printed_rate(rates, np.cumsum(samples / np.maximum(rates, 1e-3)).tolist())


def by_time(rates: Sequence[float]) -> PrintedRate:
    """A program that prints once a second."""
    return printed_rate(rates, np.arange(len(rates), dtype=np.float64).tolist())


UNEVEN = [100.0, 50.0] * 10


def test_equal_work_counts_equally() -> None:
    found = by_steps(UNEVEN)
    assert found.samples_per_s == pytest.approx(2 / (1 / 100 + 1 / 50))


def test_equal_times_count_equally() -> None:
    assert by_time(UNEVEN).samples_per_s == pytest.approx(75)


def test_times_of_a_buffer_that_was_emptied_tell_nothing() -> None:
    at_once = [5.0 + 1e-5 * place for place in range(20)]
    assert printed_rate(UNEVEN, at_once).samples_per_s == pytest.approx(2 / (1 / 100 + 1 / 50))


@pytest.mark.parametrize("program", [by_steps, by_time])
@pytest.mark.parametrize("prints", [5, 20, 200])
def test_a_slow_start_is_left_out(program: object, prints: int) -> None:
    rng = np.random.default_rng(1)
    rates = 100 * np.exp(0.01 * rng.standard_normal(prints))
    rates[:2] *= 0.3
    found = program(rates.tolist())  # type: ignore[operator]
    assert found.samples_per_s == pytest.approx(100, rel=0.02)
    assert found.warm_up is not None and found.warm_up.steps >= 2


def test_one_number_is_the_throughput() -> None:
    found = by_time([246.8])
    assert (found.samples_per_s, found.left_out) == (246.8, None)
    assert found.warm_up is not None and found.warm_up.stationary


def test_zeros_before_the_start_are_warm_up_and_said() -> None:
    found = by_time([0.0, 0.0, *[100.0] * 20])
    assert found.samples_per_s == pytest.approx(100)
    assert found.warm_up is not None
    assert (found.warm_up.steps, found.warm_up.reason[:34]) == (
        2,
        "its first 2 printed numbers are 0;",
    )


@pytest.mark.parametrize(
    ("rates", "said"),
    [
        ([0.0, 0.0], "it printed only 0 as throughput"),
        ([100.0, 0.0, 100.0], "1 of its 3 printed numbers are zeros"),
        (([100.0] * 10 + [400.0] * 4) * 3, "of two kinds, 30 around 100 and 12 around 400"),
        ([150.0, 150.0, 300.0] * 8, "around 150 and"),
    ],
)
def test_no_throughput_is_made_of_what_is_none(rates: Sequence[float], said: str) -> None:
    found = by_time(rates)
    assert found.samples_per_s is None
    assert found.left_out is not None and said in found.left_out


def test_a_run_that_never_becomes_steady_is_left_out() -> None:
    found = by_time([100 / (1 + 5 / (1 + place) ** 0.5) for place in range(100)])
    assert found.samples_per_s is None
    assert found.left_out is not None and "it was still warming up when it ended" in found.left_out


@pytest.mark.parametrize("seed", range(20))
def test_ordinary_numbers_are_of_one_kind(seed: int) -> None:
    rng = np.random.default_rng(seed)
    noise = np.exp(0.05 * rng.standard_normal(100))
    checkpoints = 100 * noise
    checkpoints[::10] *= 0.3
    bursts = 100 * np.exp(0.5 * rng.standard_normal(100))
    faster_once = 100 * noise
    faster_once[50:] *= 2
    for rates in (100 * noise, checkpoints, bursts, faster_once):
        assert "two kinds" not in (by_steps(rates.tolist()).left_out or "")


def test_a_run_that_becomes_slower_behind_zeros_says_from_which_print_on() -> None:
    rates = [0.0] * 3 + [100.0, 101.0, 99.0] * 10 + [75.0, 76.0, 74.0] * 10
    found = printed_rate(rates, [float(at) for at in range(len(rates))]).warm_up
    assert found is not None
    assert found.slower_from == pytest.approx(33, abs=1)
    assert found.slower == pytest.approx(4 / 3, abs=0.03)


def test_what_is_no_throughput_has_the_unit_that_is_counted() -> None:
    assert printed_rate([1e40, 1e40], [0.0, 1.0], "tokens").left_out == (
        "it printed 1e+40 tokens per second, which is not a throughput"
    )
