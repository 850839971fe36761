"""Factors of a point, from the tables on: they multiply to the efficiency."""

import math
from pathlib import Path

import pytest
from reports import studied, summarised
from study_files import STARTED, plan

from argosy.report.topics.losses import NAMES, RankTimes, point_factors, rank_times

SHARES = {"data": 0.1, "forward": 0.3, "backward": 0.4, "communication": 0.1}


def made(results: Path, nodes: int, repeat: int, step_s: float, **shares: float) -> str:
    run = plan(results, nodes=nodes, ranks_per_node=2, repeat=repeat)
    run.execute()
    run.steps(step_s=step_s, steps=40, phases={**SHARES, **shares})
    return run.run_id


def times(results: Path) -> dict[str, RankTimes]:
    with studied(results) as tables:
        return {run_id: found for (_, run_id), found in rank_times(tables).items()}


def test_the_times_of_ranks_are_those_of_the_steady_state(tmp_path: Path) -> None:
    run_id = made(tmp_path, 1, 1, 0.1)
    found = times(tmp_path)[run_id]
    assert (found.ranks, found.samples) == (2, 2 * 35 * 32)
    # The second rank's steps are 1 per mille shorter.
    both, slowest = 35 * (0.1 + 0.0999), 35 * 0.1
    assert found.useful_s == pytest.approx(both * 0.8)
    assert found.data_s == found.communication_s == pytest.approx(both * 0.1)
    assert (found.busiest_s, found.slowest_s) == pytest.approx((slowest * 0.9, slowest))


def test_the_product_of_all_is_the_efficiency(tmp_path: Path) -> None:
    base = [made(tmp_path, 1, repeat, 0.1 + 0.002 * repeat) for repeat in (1, 2, 3)]
    large = [
        made(tmp_path, 4, repeat, 0.12 + 0.003 * repeat, communication=0.25, backward=0.3)
        for repeat in (1, 2)
    ]
    found = times(tmp_path)
    factors = point_factors([found[run] for run in large], [found[run] for run in base])
    assert tuple(factors) == NAMES
    product = math.prod(factors[name].mean for name in NAMES[:-1])
    assert product == pytest.approx(factors["efficiency"].mean, rel=1e-12)
    # All runs have equal samples per rank; the first rank is the slowest.
    base_s = math.prod(0.1 + 0.002 * repeat for repeat in (1, 2, 3)) ** (1 / 3)
    large_s = math.prod(0.12 + 0.003 * repeat for repeat in (1, 2)) ** (1 / 2)
    assert factors["efficiency"].mean == pytest.approx(base_s / large_s, rel=1e-9)
    assert factors["communication"].mean == pytest.approx((1 - 0.25) / (1 - 0.1), rel=1e-9)
    # Factors that are equal in all runs have no interval.
    for name, one in factors.items():
        if name in ("computation", "efficiency"):
            assert one.low and one.low < one.mean, name
        else:
            assert one.low is one.high is None, name


def test_a_size_whose_runs_only_communicate_has_no_factors(tmp_path: Path) -> None:
    made(tmp_path, 1, 1, 0.1)
    made(tmp_path, 2, 1, 0.1, data=0.0, forward=0.0, backward=0.0, communication=1.0)
    [experiment] = summarised(tmp_path).experiments
    assert experiment.points[-1].speed_up
    assert experiment.points[-1].factors == {}


def test_runs_of_blocks_have_factors_and_an_efficiency_of_pairs(tmp_path: Path) -> None:
    hours = (1.0, 1.2, 0.9, 1.1, 0.8, 1.3)
    for repeat, hour in enumerate(hours, 1):
        for nodes in (1, 2):
            run = plan(tmp_path, nodes=nodes, ranks_per_node=2, repeat=repeat)
            run.execute(started=STARTED + 100 * repeat + nodes)
            step_s = 0.1 * hour * (1 + 0.001 * (repeat * nodes % 3))
            run.steps(step_s=step_s, steps=40, phases=SHARES)
    [experiment] = summarised(tmp_path).experiments
    large = experiment.points[-1]
    assert large.speed_up_is_paired
    of_points, of_factors = large.efficiency, large.factors["efficiency"]
    assert of_points and of_points.low and of_factors.low
    assert of_factors.mean == pytest.approx(of_points.mean)
    assert of_factors.low == pytest.approx(of_points.low)
    # Common effects of an hour cancel in both.
    assert of_factors.low > 0.99 * of_factors.mean
