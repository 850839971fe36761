"""Factors multiply to the efficiency, and each has its own cause."""

import math
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.report.topics.losses import NAMES, RankTimes, point_factors

PHASES = ("data", "h2d", "forward", "backward", "communication", "update", "other")


def of_ranks(phases_s: Mapping[str, np.ndarray], samples: np.ndarray) -> RankTimes:
    """Return a run by the seconds of each phase, and samples, of each rank."""
    data, communication = (phases_s.get(name) for name in ("data", "communication"))
    useful = sum(one for name, one in phases_s.items() if name not in ("data", "communication"))
    work = useful + (0 if data is None else data)
    whole = work + (0 if communication is None else communication)
    return RankTimes(
        samples.size,
        float(samples.sum()),
        float(np.sum(useful)),
        None if data is None else float(data.sum()),
        None if communication is None else float(communication.sum()),
        float(np.max(work)),
        float(np.max(whole)),
    )


def run_of(ranks: int = 4, samples: float = 640.0, **phases_s: float | list[float]) -> RankTimes:
    """Return a run whose ranks have equal or individual seconds per phase."""
    spread = {name: np.broadcast_to(np.array(value), (ranks,)) for name, value in phases_s.items()}
    return of_ranks(spread, np.full(ranks, samples))


def factors(run: RankTimes, base: RankTimes) -> dict[str, float]:
    """Return the factors of a single run relative to a single run."""
    return {name: found.mean for name, found in point_factors([run], [base]).items()}


def product(found: dict[str, float]) -> float:
    return math.prod(value for name, value in found.items() if name != "efficiency")


BASE = run_of(2, data=1.0, forward=3.0, backward=4.0, communication=2.0)


def random_run(chance: np.random.Generator) -> RankTimes:
    ranks = int(chance.integers(1, 20))
    recorded = [name for name in PHASES if name in ("forward", "other") or chance.random() < 0.7]
    seconds = {name: chance.lognormal(0, 1, ranks) for name in recorded}
    return of_ranks(seconds, chance.integers(1, 1000, ranks).astype(float))


@given(st.integers(0, 2**32))
def test_the_product_is_the_efficiency_whatever_was_recorded(seed: int) -> None:
    chance = np.random.default_rng(seed)
    run, base = random_run(chance), random_run(chance)

    def throughput_per_rank(one: RankTimes) -> float:
        return one.samples / one.slowest_s / one.ranks

    found = factors(run, base)
    expected = throughput_per_rank(run) / throughput_per_rank(base)
    assert found["efficiency"] == pytest.approx(expected, rel=1e-9)
    assert product(found) == pytest.approx(expected, rel=1e-9)


def test_the_base_has_ones() -> None:
    assert factors(BASE, BASE) == dict.fromkeys(NAMES, 1.0)


def test_more_communication() -> None:
    found = factors(run_of(data=1.0, forward=3.0, backward=4.0, communication=4.0), BASE)
    assert found["communication"] == pytest.approx((8 / 12) / (8 / 10))
    assert {found[name] for name in ("load_balance", "data", "computation")} == {1.0}
    assert found["efficiency"] == pytest.approx(10 / 12)


def test_a_rank_that_the_others_wait_for() -> None:
    waiting = [4.0, 4.0, 4.0, 2.0]
    run = run_of(data=1.0, forward=3.0, backward=[4.0, 4.0, 4.0, 6.0], communication=waiting)
    found = factors(run, BASE)
    assert found["load_balance"] == pytest.approx(8.5 / 10)
    assert found["communication"] == pytest.approx((10 / 12) / (8 / 10))
    assert found["computation"] == pytest.approx(7 / 7.5)
    assert found["efficiency"] == pytest.approx(10 / 12)


def test_waiting_for_data() -> None:
    found = factors(run_of(data=3.0, forward=3.0, backward=4.0, communication=0.0), BASE)
    assert found["data"] == pytest.approx((7 / 10) / (7 / 8))
    assert {found[name] for name in ("load_balance", "computation")} == {1.0}
    assert found["communication"] == pytest.approx(1 / 0.8)


def test_faster_computation_is_more_than_one() -> None:
    found = factors(run_of(data=1.0, forward=1.5, backward=2.0, communication=2.0), BASE)
    assert found["computation"] == pytest.approx(2)


def test_samples_count_not_seconds() -> None:
    twice = run_of(samples=1280.0, data=2.0, forward=6.0, backward=8.0, communication=4.0)
    assert factors(twice, BASE) == pytest.approx(dict.fromkeys(NAMES, 1.0))


def test_communication_that_hides_in_backward_is_in_the_computation() -> None:
    hidden = run_of(data=1.0, forward=3.0, backward=8.0)
    found = factors(hidden, run_of(data=1.0, forward=3.0, backward=6.0))
    assert "communication" not in found
    assert found["load_balance"] == 1
    assert found["computation"] == pytest.approx(9 / 11)
    assert product(found) == pytest.approx(10 / 12)


def test_what_only_one_of_both_records_is_not_told_apart() -> None:
    found = factors(run_of(forward=4.0, backward=8.0), BASE)
    assert not {"communication", "data"} & found.keys()
    assert found["computation"] == found["efficiency"] == pytest.approx(10 / 12)
