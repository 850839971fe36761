"""The answer of an experiment: sentences on measured sizes, and no claims beyond them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from reports import reported_summary, summarised
from study_files import STARTED, completed, plan

from argosy.report.statistics.estimates import Estimate, geometric_mean_estimate, ratio_estimate
from argosy.report.summary.models import ExperimentSummary, PointSummary
from argosy.report.summary.parts import AllreduceSummary
from argosy.report.topics import to_know
from argosy.report.topics.answer import advice, advise, answer

SPREAD = (0.99, 1.0, 1.01)
NOTHING = PointSummary(1, 1, 1, [], *[None] * 6, {}, {}, *[None] * 5, 0)


def study(results: Path, steps_s: Mapping[int, float], spread: Sequence[float] = SPREAD) -> None:
    """Measure repeats by nodes, with these seconds of a step of 32 samples per rank."""
    for nodes, step_s in steps_s.items():
        for repeat, factor in enumerate(spread, 1):
            completed(results, step_s * factor, nodes=nodes, repeat=repeat)


def experiment(results: Path) -> ExperimentSummary:
    [found] = reported_summary(results).experiments
    return found


def chosen(found: ExperimentSummary) -> tuple[int, int]:
    assert found.advice
    return found.advice.for_time.nodes, found.advice.for_node_hours.nodes


def test_the_smallest_size_is_taken_that_no_other_is_shown_to_beat(tmp_path: Path) -> None:
    # Samples/s of n nodes are 32 n / step; 8 nodes are as fast as 4.
    found = experiment_of(tmp_path, {1: 0.1, 2: 0.12, 4: 0.15, 8: 0.3})
    assert chosen(found) == (4, 1)
    [faster, larger, beyond, loss] = answer(found)
    assert faster.startswith("4 nodes are 2.67 times as fast as 1 node (2.6")
    assert faster.endswith("), at 67 % efficiency.")
    assert larger == "8 nodes are not significantly faster than that."
    assert beyond == "Beyond 8 nodes nothing was measured."
    assert loss == "On 8 nodes the main loss is slower computation."
    [said] = advice(found)
    assert said.startswith("Take 4 nodes if time matters, at 1.50 times the node-hours (1.4")
    assert said.endswith("); take 1 node if node-hours do.")


def test_charged_node_hours_are_said_where_their_ratio_is_another_one(tmp_path: Path) -> None:
    found = experiment_of(tmp_path, {1: 0.1, 2: 0.1, 4: 0.1}, (0.999, 1.0, 1.001))
    one, _, four = (point.costs and point.costs.charged_node_hours for point in found.points)
    assert one and four and found.advice and found.advice.charged
    assert found.advice.charged == pytest.approx(four.mean / one.mean)
    assert "as charged" not in advice(charged(found, 1.02))[0]
    # For example, each job starts slowly.
    [said] = advice(charged(found, 1.9))
    assert said.startswith(
        "Take 4 nodes if time matters, 1 node if node-hours do; the difference in "
    )
    assert said.endswith("; 1.90 times the charged node-hours).")


def charged(found: ExperimentSummary, ratio: float) -> ExperimentSummary:
    assert found.advice
    return replace(found, advice=replace(found.advice, charged=ratio))


def experiment_of(
    folder: Path, steps_s: Mapping[int, float], spread: Sequence[float] = SPREAD
) -> ExperimentSummary:
    study(folder / "site", steps_s, spread)
    return experiment(folder / "site")


def test_a_larger_size_that_is_slower_is_said_to_be(tmp_path: Path) -> None:
    found = experiment_of(tmp_path, {1: 0.1, 2: 0.12, 4: 0.4})
    assert chosen(found) == (2, 1)
    assert answer(found)[1] == "4 nodes are slower than that."


def test_sizes_on_one_node_are_singular(tmp_path: Path) -> None:
    found = experiment_of(tmp_path, {1: 0.1, 2: 0.12, 4: 0.4})
    points = [replace(one, nodes=1, ranks_per_node=one.ranks) for one in found.points]
    of_one_node = replace(found, points=points, sizes=[], advice=advise(points))
    assert answer(of_one_node)[1].endswith(" ranks is slower than that.")


@pytest.mark.parametrize("slower", [1.0, 3.0])
def test_no_speed_up_is_said_where_none_is_shown(tmp_path: Path, slower: float) -> None:
    scattering = (0.7, 1.0, 1.4) if slower == 1 else SPREAD
    found = experiment_of(tmp_path, {1: 0.1, 2: 0.17 * slower}, scattering)
    assert chosen(found) == (1, 1)
    said = " ".join(answer(found))
    if slower == 1:
        assert said.startswith("No significant speed-up: 2 nodes give 1.1")
        assert "could only detect differences above" in said
    else:
        assert said.startswith("No larger size is significantly faster than 1 node.")
    assert advice(found) == ["Take 1 node, whether time matters or node-hours do."]


def test_a_size_that_may_be_as_slow_as_the_base_is_not_taken(tmp_path: Path) -> None:
    """Its runs scatter so much that it may also be as fast as the fastest."""
    study(tmp_path / "site", {1: 0.1, 4: 0.1})
    study(tmp_path / "site", {2: 0.12}, (0.4, 1.0, 2.0))
    found = experiment(tmp_path / "site")
    _, two, _ = found.points
    assert two.speed_up and two.speed_up.low and two.speed_up.low < 1
    assert chosen(found)[0] == 4


def test_one_size_is_both_where_node_hours_are_alike(tmp_path: Path) -> None:
    found = experiment_of(tmp_path, {1: 0.1, 2: 0.1, 4: 0.1}, (0.999, 1.0, 1.001))
    [said] = advice(charged(found, 1.0))
    assert said.startswith("Take 4 nodes, whether time matters or node-hours do: 1")
    found = experiment_of(tmp_path / "single", {1: 0.1, 2: 0.1}, (1.0,))
    [said] = advice(found)
    assert said.startswith("Based on means only, take 2 nodes, whether time matters or node-h")
    # A wide interval does not mean that sizes are equal.
    found = experiment_of(tmp_path / "wide", {1: 0.1, 2: 0.1, 4: 0.1}, (0.9, 1.0, 1.1))
    [said] = advice(found)
    assert said.startswith(
        "Take 4 nodes if time matters, 1 node if node-hours do; the difference in "
    )


def test_a_size_that_takes_hardly_longer_is_named(tmp_path: Path) -> None:
    found = experiment_of(tmp_path, {1: 0.1, 2: 0.1, 4: 0.196}, (0.999, 1.0, 1.001))
    assert chosen(found)[0] == 4
    assert advice(found)[1] == "2 nodes would take only 2.0 % longer, comparing means."


def test_single_runs_are_said_to_decide_by_themselves(tmp_path: Path) -> None:
    found = experiment_of(tmp_path, {1: 0.1, 2: 0.12}, (1.0,))
    assert "(single runs, no interval)" in answer(found)[0]
    assert advice(found) == [
        "Based on means only, take 2 nodes if time matters, at 1.20 times the node-hours; take 1 "
        "node if node-hours do."
    ]


def test_sizes_of_other_days_are_not_compared_by_scatter(tmp_path: Path) -> None:
    study(tmp_path / "site", {1: 0.1, 2: 0.12, 4: 0.24})
    for nodes in (2, 4):
        for repeat in (1, 2, 3):
            folder = tmp_path / f"site/digits/nodes{nodes}-ranks1-repeat{repeat}"
            for path in (folder / "result.json", *folder.glob("attempts/*/verdict.json")):
                verdict = json.loads(path.read_text())
                path.write_text(json.dumps(verdict | {"started": STARTED + 1e6}))
    found = experiment(tmp_path / "site")
    assert "no interval: it was measured on other days" in answer(found)[0]
    assert advice(found)[0].startswith("Based on means only, take ")


def test_a_size_without_an_interval_is_not_advised(tmp_path: Path) -> None:
    """Runs that were lost may have been the slow ones, and one run tells nothing of the others."""
    study(tmp_path / "site", {1: 0.1, 2: 0.12, 4: 0.14})
    completed(tmp_path / "site", 0.1, nodes=8)
    plan(tmp_path / "site", nodes=4, repeat=4).execute(state="failed")
    found = experiment(tmp_path / "site")
    assert chosen(found) == (2, 1)
    said = answer(found)
    assert (
        "4 nodes: not compared (no interval: runs that were lost may have been the slow ones)."
        in said
    )
    assert "8 nodes: not compared (single runs, no interval)." in said
    assert not any("means alone" in one for one in advice(found))


@pytest.mark.parametrize("odd", [20.0, 0.05])
@pytest.mark.parametrize("nodes", [2, 4])
def test_an_odd_run_hides_no_speed_up_of_other_sizes(
    tmp_path: Path, nodes: int, odd: float
) -> None:
    study(tmp_path / "site", {1: 0.1, 2: 0.11, 4: 0.12}, (0.99, 1.0, 1.01, 1.005))
    completed(tmp_path / "site", 0.1 / odd, nodes=nodes, repeat=5)
    summary = summarised(tmp_path / "site")
    [found] = summary.experiments
    sure = 4 if nodes == 2 else 2
    assert chosen(found)[0] == sure
    assert f"{sure} nodes are " in answer(found)[0]
    assert not any("longer" in one for one in advice(found))
    [said] = [one for one in to_know(summary, found) if "median of the other" in one]
    assert said.startswith(f"nodes{nodes}-ranks1-repeat5: its throughput is ")


def test_runs_that_all_agree_are_compared(tmp_path: Path) -> None:
    study(tmp_path / "site", {1: 0.1, 2: 0.09}, (1.0, 1.0, 1.0))
    study(tmp_path / "site", {4: 0.1})
    found = experiment(tmp_path / "site")
    assert chosen(found) == (4, 2)
    assert not any("not compared" in one for one in answer(found))


def test_one_of_five_runs_lost_is_a_fifth(tmp_path: Path) -> None:
    study(tmp_path / "site", {1: 0.1, 4: 0.14})
    completed(tmp_path / "site", 0.141, nodes=4, repeat=4)
    plan(tmp_path / "site", nodes=4, repeat=5).execute(state="failed")
    assert "runs that were lost" in str(experiment(tmp_path / "site").points[1].no_interval)


def test_weak_scaling_is_of_throughput(tmp_path: Path) -> None:
    for nodes in (1, 2):
        for repeat, factor in enumerate(SPREAD, 1):
            completed(tmp_path / "site", 0.1 * factor, nodes=nodes, repeat=repeat, scaling="weak")
    assert answer(experiment(tmp_path / "site"))[0].startswith(
        "2 nodes give 2.00 times the throughput of 1 node ("
    )


def test_of_one_size_nobody_can_say(tmp_path: Path) -> None:
    found = experiment_of(tmp_path, {2: 0.1})
    assert found.advice is None
    assert answer(found)[0].startswith("2 nodes give 640 samples per second")
    assert advice(found) == ["Measure a second size to learn how many nodes to take."]


def test_nothing_is_advised_where_nothing_was_measured(tmp_path: Path) -> None:
    plan(tmp_path / "site")
    found = experiment(tmp_path / "site")
    assert answer(found) == ["No throughput was measured; runs: 1 pending."]
    assert advice(found) == []


def test_sizes_without_a_result_are_not_beyond_words(tmp_path: Path) -> None:
    study(tmp_path / "site", {1: 0.1, 2: 0.12})
    for repeat in (1, 2, 3):
        lost = plan(tmp_path / "site", nodes=4, repeat=repeat)
        failure = {"node": 0, "rank": None, "cause": "the time limit was reached", "at": 1.0}
        lost.execute(state="failed", failure=failure)
    summary = reported_summary(tmp_path / "site")
    [found] = summary.experiments
    assert "Beyond 2 nodes nothing was measured (4 nodes: no run counts)." in answer(found)
    assert to_know(summary, found)[0] == (
        "4 nodes: none of its 3 runs counts (3 failed): the time limit was reached."
    )


@pytest.mark.parametrize(
    ("truth", "best"),
    [
        ({1: 1, 2: 1.9, 4: 3.0, 8: 3.0}, (4, 1)),
        ({1: 1, 2: 1.9, 4: 3.6, 8: 6.5}, (8, 1)),
        ({1: 1, 2: 1, 4: 1, 8: 1}, (1, 1)),
        ({1: 1, 2: 2.4, 4: 3.9, 8: 3.5}, (4, 2)),
    ],
)
def test_nine_of_ten_studies_name_the_sizes_of_the_truth(
    truth: Mapping[int, float], best: tuple[int, int]
) -> None:
    chance = np.random.default_rng(1)
    found = [advise(drawn_sizes(truth, chance)) for _ in range(200)]
    right = sum((one.for_time.nodes, one.for_node_hours.nodes) == best for one in found if one)
    assert right >= 180


def drawn_sizes(truth: Mapping[int, float], chance: np.random.Generator) -> list[PointSummary]:
    """Five runs of each size, which scatter by 3 %."""
    runs = {
        nodes: (rate * np.exp(0.03 * chance.standard_normal(5))).tolist()
        for nodes, rate in truth.items()
    }
    return [
        replace(
            NOTHING,
            nodes=nodes,
            ranks=nodes,
            runs_samples_per_s=rates,
            throughput_samples_per_s=geometric_mean_estimate(rates),
            speed_up=ratio_estimate(rates, runs[1]) if nodes > 1 else Estimate(5, 1.0),
        )
        for nodes, rates in runs.items()
    ]


def test_the_bus_bandwidth_is_that_of_nccl_tests() -> None:
    one = AllreduceSummary(2, 4, 8, 2 * 10**9, Estimate(3, 0.5))
    assert one.busbw_gb_per_s == pytest.approx(4 * 2 * 7 / 8)
    assert replace(one, nodes=1, ranks_per_node=1, ranks=1).busbw_gb_per_s == 0
