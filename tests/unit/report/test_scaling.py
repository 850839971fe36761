"""Speed-up and efficiency from throughputs."""

from dataclasses import replace

import pytest

from argosy.report.runs.measurements import Measurement, Point
from argosy.report.runs.scaling import scaling
from argosy.report.runs.warmup import WarmUp
from argosy.report.statistics.estimates import Estimate, ratio_estimate


def runs(nodes: int, *rates: float | None, ranks_per_node: int = 1) -> list[Measurement]:
    point = Point(nodes * ranks_per_node, nodes, ranks_per_node)
    return [
        Measurement("digits", f"run{place}", "strong", point, rate)
        for place, rate in enumerate(rates)
    ]


def test_against_the_smallest_point() -> None:
    one, two = scaling(runs(2, 160.0, 163.0, 166.0) + runs(1, 100.0, 101.0, 99.0))
    assert (one.speed_up, one.efficiency) == (Estimate(3, 1.0), Estimate(3, 1.0))
    expected = ratio_estimate([160.0, 163.0, 166.0], [100.0, 101.0, 99.0])
    assert two.speed_up == expected
    assert expected.low
    # Of geometric means: 162.98 over 99.997.
    assert two.speed_up.mean == pytest.approx(1.62987, abs=1e-5)
    assert two.efficiency.mean == pytest.approx(two.speed_up.mean / 2)
    assert two.efficiency.low == pytest.approx(expected.low / 2)
    assert two.throughput.mean == pytest.approx(162.982, abs=1e-3)
    assert two.throughput.mean / one.throughput.mean == pytest.approx(two.speed_up.mean)


def test_efficiency_counts_ranks_from_the_base() -> None:
    base, larger = scaling(runs(2, 100.0, ranks_per_node=4) + runs(6, 240.0, ranks_per_node=4))
    assert base.point.ranks == 8
    assert larger.speed_up == Estimate(1, pytest.approx(2.4))
    assert larger.efficiency.mean == pytest.approx(0.8)


def test_of_points_with_as_few_ranks_the_one_with_fewer_nodes_is_the_base() -> None:
    base, spread = scaling(runs(2, 90.0) + runs(1, 100.0, ranks_per_node=2))
    assert (base.point.nodes, spread.point.nodes) == (1, 2)
    assert spread.efficiency.mean == pytest.approx(0.9)


def test_runs_without_throughput_are_left_out() -> None:
    [only] = scaling(runs(1, None) + runs(2, 50.0, None))
    assert (only.point.nodes, only.samples_per_s) == (2, (50.0,))


def in_blocks(repeats: int, apart_s: float = 100.0) -> list[Measurement]:
    """Two sizes whose runs have in common what each repeat's hour is like."""
    hours = [1.0, 1.2, 0.9, 1.1, 0.8, 1.3, 1.0][:repeats]
    return [
        Measurement(
            *("digits", f"{nodes}-{repeat}", "strong", Point(nodes, nodes, 1)),
            nodes * 100 * hour * (1 + 0.001 * (repeat * nodes % 3)),
            repeat=repeat,
            started_unix_s=apart_s * repeat + nodes,
        )
        for nodes in (1, 2)
        for repeat, hour in enumerate(hours, 1)
    ]


def test_what_blocks_have_in_common_is_not_in_the_speed_up() -> None:
    _, paired = scaling(in_blocks(6))
    _, independent = scaling(in_blocks(6, apart_s=0.0))
    assert paired.is_paired and not independent.is_paired
    assert paired.speed_up.mean == pytest.approx(independent.speed_up.mean)
    for found, width, seen in ((paired, 0.01, 1.01), (independent, 0.3, 1.2)):
        low, high = found.speed_up.low, found.speed_up.high
        assert low and high and found.detectable
        assert (high - low < 0.01) == found.is_paired and (high - low > width) != found.is_paired
        assert (found.detectable < seen) == found.is_paired


def test_few_repeats_or_others_are_no_pairs() -> None:
    few, whole = in_blocks(5), in_blocks(7)
    lost = [run for run in whole if run.run_id != "2-3"]
    again = [
        replace(run, started_unix_s=5000.0) if run.run_id == "2-1" else run for run in in_blocks(6)
    ]
    assert not any(one.is_paired for runs in (few, lost, again) for one in scaling(runs))


@pytest.mark.parametrize(
    ("starts_h", "reason"),
    [
        ((0.0, 0.1, 1.3, 1.4), "it was measured at other hours than the base"),
        ((1.3, 1.4, 0.0, 0.1), "it was measured at other hours than the base"),
        ((0.0, 1.3, 0.1, 1.4), None),
        ((0.0, 0.1, 0.2, 0.3), None),
    ],
    ids=["later", "earlier", "by turns", "within the hour"],
)
def test_sizes_one_after_the_other_have_no_interval(
    starts_h: tuple[float, ...], reason: str | None
) -> None:
    measured = [*runs(1, 100.0, 101.0), *runs(2, 198.0, 199.0)]
    at = [
        replace(run, started_unix_s=1e9 + 3600 * hours)
        for run, hours in zip(measured, starts_h, strict=True)
    ]
    _, found = scaling(at)
    assert found.no_interval == reason
    assert (found.speed_up.low is None) == (reason is not None)


def test_sizes_of_other_days_have_a_ratio_and_no_interval() -> None:
    day_s = 86400.0
    one = [
        replace(run, started_unix_s=60.0 * place) for place, run in enumerate(runs(1, 99.0, 101.0))
    ]
    two = [replace(run, started_unix_s=day_s) for run in runs(2, 198.0, 199.0)]
    _, found = scaling(one + two)
    assert found.no_interval == "it was measured on other days than the base"
    assert found.throughput.low is not None
    assert (found.speed_up.low, found.efficiency.high, found.detectable) == (None, None, None)
    assert found.speed_up.mean == pytest.approx(1.985, abs=0.01)


@pytest.mark.parametrize(
    ("base_days", "other_days", "reason"),
    [
        ([1, 1, 1, 2], [2, 2, 2], "it was mostly measured on other days than the base"),
        ([1, 1, 1, 1], [2, 2, 2, 1], "it was mostly measured on other days than the base"),
        (
            [1, 1, 1, 1, 2, 2, 2, 2],
            [2, 2, 2, 2],
            "it was mostly measured on other days than the base",
        ),
        ([1, 1, 1, 2, 2], [1, 1, 1, 2], None),
        ([1, 1, 1, 2, 2, 2], [1, 1, 1, 2, 2, 2], None),
        ([1, 2, 3], [1, 2, 3], None),
        ([1, 2], [1, 2], None),
    ],
)
def test_one_run_on_another_day_does_not_make_sizes_take_turns(
    base_days: list[int], other_days: list[int], reason: str | None
) -> None:
    measured = [
        replace(run, started_unix_s=86400.0 * day + 60 * place + nodes)
        for nodes, its_days in ((1, base_days), (2, other_days))
        for place, (day, run) in enumerate(
            zip(its_days, runs(nodes, *(100.0 + day for day in range(len(its_days)))), strict=True)
        )
    ]
    _, found = scaling(measured)
    assert found.no_interval == reason
    assert (found.speed_up.low is None) == (reason is not None)


def losing(measured: list[Measurement], share: float) -> list[Measurement]:
    return [replace(run, lost=share) for run in measured]


def test_a_size_that_lost_runs_has_no_interval_and_none_has_beside_such_a_base() -> None:
    one, two, three = runs(1, 99.0, 101.0), runs(2, 198.0, 199.0), runs(3, 290.0, 300.0)
    _, second, third = scaling(one + losing(two, 0.25) + losing(three, 0.01))
    assert (second.speed_up.low, second.throughput.low) == (None, None)
    assert "slow ones" in str(second.no_interval)
    assert third.speed_up.low is not None
    base, *others = scaling(losing(one, 0.5) + two + three)
    assert base.throughput.low is None
    assert [found.speed_up.low for found in others] == [None, None]
    assert None not in [found.throughput.low for found in others]


@pytest.mark.parametrize("slow", [1, 2])
def test_a_size_whose_runs_become_slower_is_in_no_interval(slow: int) -> None:
    """Their means depend on how long they are; that of one run in three may do so by chance."""
    of_sizes = {nodes: runs(nodes, 99.0 * nodes, 100.0 * nodes, 101.0 * nodes) for nodes in (1, 2)}
    steady, throttled = WarmUp(0, True, ""), WarmUp(0, True, "", slower_from=60, slower=1.25)
    for slow_runs, has_interval in ((0, True), (1, True), (2, False), (3, False)):
        measured = [
            replace(run, warm_up=throttled if nodes == slow and place < slow_runs else steady)
            for nodes, of_size in of_sizes.items()
            for place, run in enumerate(of_size)
        ]
        _, found = scaling(measured)
        assert (found.speed_up.low is not None) == has_interval
        assert (found.no_interval is None) == has_interval
        assert found.speed_up.mean == pytest.approx(2)
        assert found.throughput.low is not None


def test_no_runs_no_points() -> None:
    assert scaling([]) == []
