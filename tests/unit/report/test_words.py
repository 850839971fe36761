"""Rounding and plain words."""

from dataclasses import replace

import pytest

from argosy.report import numbers, sizes
from argosy.report import sizes as size_names
from argosy.report.runs.measurements import Point
from argosy.report.runs.setups import Setup
from argosy.report.statistics.estimates import Estimate
from argosy.report.summary.models import ExperimentSummary, PointSummary
from argosy.report.summary.parts import SizeRuns
from argosy.report.topics import scaling as words


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0, "0"),
        (0.0123456, "0.0123"),
        (1.2, "1.20"),
        (9.999, "10.0"),
        (123.4, "123"),
        (12345.0, "12,300"),
        (-1.5, "−1.50"),
        (-0.0, "0"),
    ],
)
def test_number(value: float | None, text: str) -> None:
    assert numbers.number(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "unknown"),
        (0.0213, "0.021 s"),
        (4.26, "4.3 s"),
        (200, "3 min 20 s"),
        (59.99, "60.0 s"),
        (7500, "2 h 05 min"),
    ],
)
def test_duration(seconds: float | None, text: str) -> None:
    assert numbers.duration(seconds) == text


@pytest.mark.parametrize(
    ("low", "mean", "high", "text"),
    [
        (1210.0, 1235.5, 1260.0, "1,240 (1,210 to 1,260)"),
        (1236.0, 1237.5, 1239.0, "1,238 (1,236 to 1,239)"),
        (1235.8963, 1235.89973, 1235.9032, "1,235.90 (1,235.90 to 1,235.90)"),
        (-1.0042, -1.0021, -1.0, "−1.002 (−1.004 to −1.000)"),
        (None, 1235.5, None, "1,240 (–)"),
    ],
)
def test_narrow_intervals_hold_their_means(
    low: float | None, mean: float, high: float | None, text: str
) -> None:
    found = Estimate(3, mean, low, high)
    assert f"{numbers.mean_text(found)} ({numbers.interval(found)})" == text


def test_intervals() -> None:
    assert numbers.interval(Estimate(3, 1.63, 1.4821, 1.7912)) == "1.48 to 1.79"
    assert numbers.percent_interval(Estimate(3, 0.82, 0.74, 0.9)) == "74 to 90 %"
    assert numbers.percent_interval(Estimate(3, 0.0, -0.02, -0.0001)) == "−2 to 0 %"
    assert numbers.interval(Estimate(1, 1.63)) == numbers.percent_interval(None) == "–"


def test_probability() -> None:
    assert [numbers.probability(value) for value in (0.0123, 0.001, 1e-12)] == [
        "p = 0.012",
        "p = 0.0010",
        "p < 0.001",
    ]


def test_listed() -> None:
    assert [size_names.listed(parts) for parts in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == [
        "",
        "a",
        "a and b",
        "a, b and c",
    ]


def point(nodes: int, rate: Estimate | None, speed_up: Estimate | None) -> PointSummary:
    return PointSummary(
        nodes=nodes,
        ranks_per_node=1,
        ranks=nodes,
        runs_samples_per_s=[],
        throughput_samples_per_s=rate,
        speed_up=speed_up,
        efficiency=Estimate(speed_up.n, speed_up.mean / nodes) if speed_up else None,
        step_s=None,
        steps=None,
        samples_per_step=None,
        phases_s_per_step={},
        factors={},
        usage=None,
        costs=None,
        test_accuracy=None,
        test_accuracy_min=None,
        weights_identical=None,
        weights_compared_runs=0,
    )


def experiment(*points: PointSummary, **states: int) -> ExperimentSummary:
    base = next((one for one in points if one.throughput_samples_per_s), None)
    base_point = Point(base.ranks, base.nodes, base.ranks_per_node) if base else None
    return ExperimentSummary(
        "digits",
        "digits",
        Setup(("train",), "strong", None, "plain", False, None, False, None, {}, {}, ()),
        "strong",
        states,
        base_point,
        list(points),
        [],
        None,
        None,
        None,
        [],
        [],
    )


def test_findings_with_intervals() -> None:
    found = experiment(
        point(1, Estimate(3, 120.0, 114.0, 126.0), Estimate(3, 1.0)),
        point(2, Estimate(3, 195.6, 190.0, 201.2), Estimate(3, 1.63, 1.5, 1.8)),
    )
    assert words.findings(found) == [
        "1 node gives 120 samples per second (95 % interval 114 to 126, n = 3).",
        "2 nodes give 1.63 times the throughput of 1 node "
        "(95 % interval 1.50 to 1.80, n = 3): efficiency 82 %.",
    ]


def test_findings_without_intervals() -> None:
    found = experiment(
        point(1, Estimate(1, 120.0), Estimate(1, 1.0)),
        point(2, Estimate(3, 195.6, 190.0, 201.2), Estimate(3, 1.63)),
    )
    assert words.findings(found) == [
        "1 node gives 120 samples per second (one run, so no interval).",
        "2 nodes give 1.63 times the throughput of 1 node "
        "(n = 3 against 1, so no interval): efficiency 82 %.",
    ]


def test_one_size_only() -> None:
    [sentence] = words.findings(experiment(point(1, Estimate(1, 120.0), Estimate(1, 1.0))))
    assert sentence.endswith("There is no other size to compare it with.")


def test_nothing_measured() -> None:
    [sentence] = words.findings(experiment(pending=2, failed=1, completed=3))
    assert sentence == "No throughput was measured; runs: 3 completed, 1 failed and 2 pending."


def test_a_point_is_named_by_its_ranks_where_nodes_do_not_tell() -> None:
    wide = PointSummary(**{**vars(point(1, None, None)), "ranks_per_node": 4, "ranks": 4})
    both = experiment(point(1, None, None), wide)
    assert [size_names.size(both, one) for one in both.points] == [
        "1 node with 1 rank",
        "1 node with 4 ranks",
    ]


def with_loss(batch: float | None, of_base: float | None) -> ExperimentSummary:
    """Two sizes, of which the larger is slower in computation; the samples of a step of a rank."""
    base = replace(point(1, Estimate(3, 120.0), Estimate(3, 1.0)), samples_per_step=of_base)
    lost = {"computation": Estimate(9, 0.6, 0.55, 0.65), "efficiency": Estimate(9, 0.6, 0.5, 0.7)}
    larger = point(4, Estimate(3, 288.0), Estimate(3, 2.4))
    return experiment(base, replace(larger, factors=lost, samples_per_step=batch))


def test_slower_computation_names_the_smaller_batch() -> None:
    *_, said = words.findings(with_loss(16.0, 64.0))
    assert said == (
        "Slower computation is the main loss with 4 nodes: an efficiency factor of 0.600 (0.550 "
        "to 0.650). Each rank's batch is 16 samples, compared with 64 on 1 node: smaller batches "
        "compute less efficiently."
    )


@pytest.mark.parametrize("batches", [(64.0, 64.0), (None, 64.0), (16.0, None)])
def test_no_batch_is_named_that_is_not_smaller(batches: tuple[float | None, float | None]) -> None:
    *_, said = words.findings(with_loss(*batches))
    assert said.endswith("with 4 nodes: an efficiency factor of 0.600 (0.550 to 0.650).")


def sized(states: dict[str, int], nodes: int = 2, left_out: int = 0) -> SizeRuns:
    return SizeRuns(nodes, 1, nodes, sum(states.values()), states, left_out)


def test_lost_runs_are_told_beside_the_number_that_is_left() -> None:
    found = replace(
        experiment(
            point(1, Estimate(5, 120.0, 114.0, 126.0), Estimate(5, 1.0)),
            point(2, Estimate(2, 195.6, 190.0, 201.2), Estimate(2, 1.63, 1.5, 1.8)),
        ),
        sizes=[
            sized({"completed": 5}, 1),
            sized({"completed": 2, "failed": 3}, 2),
            sized({"cancelled": 1, "failed": 1, "pending": 1}, 4),
        ],
    )
    _, of_two = words.findings(found)
    causes = ["killed by signal 9", "the time limit was reached"]
    of_four = sizes.not_completed(found, found.sizes[2], causes)
    assert of_two.endswith("efficiency 82 %. Only 2 of its 5 runs count: 3 failed.")
    assert of_four == (
        "4 nodes: none of its 3 runs counts (1 failed, 1 cancelled and 1 pending): killed by signal 9 (1); "
        "the time limit was reached (1)."
    )
    assert sizes.not_completed(found, found.sizes[1], ["killed"] * 3) == (
        "2 nodes: 3 of 5 runs did not complete: killed."
    )
    assert sizes.not_completed(found, found.sizes[0], []) == ""
    assert [sizes.counted(found, one) for one in found.points] == ["5", "2 of 5"]


def test_completed_runs_that_are_left_out_are_told_beside_the_number() -> None:
    found = experiment(point(1, Estimate(2, 120.0, 114.0, 126.0), Estimate(2, 1.0)))
    found = replace(found, sizes=[sized({"completed": 3, "pending": 2}, 1, left_out=1)])
    [said] = words.findings(found)
    assert "Only 2 of its 5 runs count: 2 pending and 1 completed without a throughput." in said


@pytest.mark.parametrize(
    ("kind", "batches", "steps", "said"),
    [
        (
            "weak",
            {1: 64, 2: 32},
            100,
            "weak, but a rank's batch does not stay the same: 64 samples on",
        ),
        ("weak", {1: 64, 2: 64, 4: 50}, 100, "weak, but a rank's batch does not stay"),
        ("weak", {1: 64, 2: 64, 4: 62}, 100, None),
        ("strong", {1: 64, 2: 32, 4: 16}, 100, None),
        ("strong", {1: 3, 2: 1.5, 4: 1}, 100, None),
        (
            "strong",
            {1: 64, 2: 64},
            100,
            "strong, but a rank's batch is not divided: 64 samples on 1 rank,",
        ),
        ("strong", {1: 64, 2: 64}, 100, "With more ranks a step has more samples."),
        (
            "strong",
            {1: 64, 2: 64},
            None,
            "the same number of samples, with more ranks in fewer and larger steps",
        ),
        ("strong", {2: 64}, 100, None),
    ],
)
def test_batches_that_are_not_of_the_kind_of_scaling_are_told(
    kind: str, batches: dict[int, float], steps: int | None, said: str | None
) -> None:
    points = [
        replace(
            point(ranks, Estimate(3, 100.0), Estimate(3, 1.0)),
            samples_per_step=float(batch),
            steps=400 / ranks if steps is None else steps,
        )
        for ranks, batch in batches.items()
    ]
    found = sizes.batches(replace(experiment(*points), scaling=kind))
    assert len(found) == (0 if said is None else 1)
    assert said is None or said in found[0]


@pytest.mark.parametrize(
    ("nodes", "said"), [((1, 2, 4), "1 to 4 nodes"), ((2,), "2 nodes"), ((1,), "1 node")]
)
def test_sizes_measured_are_those_with_a_throughput(nodes: tuple[int, ...], said: str) -> None:
    measured = [point(each, Estimate(1, 120.0), Estimate(1, 1.0)) for each in nodes]
    found = words.measured_sizes(experiment(*measured, point(64, None, None)))
    assert (found.said, found.most_ranks) == (said, nodes[-1])
