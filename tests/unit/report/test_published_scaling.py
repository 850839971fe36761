"""Published tables as studies: the report's speed-ups are theirs, and it extrapolates them honestly."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from published_scaling import DLPERF, MPT, TENSORFLOW_K80, Published, Size
from reports import summarised
from study_files import plan

from argosy.report.summary.models import ExperimentSummary
from argosy.report.summary.summarise import summarise
from argosy.report.topics.prediction.answers import Question
from argosy.report.topics.prediction.predicted import predicted
from argosy.report.topics.prediction.says import sentences

SAMPLES = 8
FARTHEST_OFF = 0.18
EXTRAPOLATED = {**TENSORFLOW_K80, **DLPERF, **MPT}
STARVED = (DLPERF["loader-8"], DLPERF["dali-8"])
"""Eight workers feed hardly more than four GPUs of a node, on any number of nodes: no law knows it."""


def studied(results: Path, rates: Mapping[Size, float]) -> ExperimentSummary:
    """What the report says of one run at each size."""
    for (nodes, ranks_per_node), rate in rates.items():
        step_s = SAMPLES * nodes * ranks_per_node / rate
        run = plan(results, nodes=nodes, ranks_per_node=ranks_per_node)
        run.execute()
        run.steps(step_s=step_s, samples=SAMPLES)
    [found] = summarised(results).experiments
    return found


@pytest.mark.parametrize("table", DLPERF.values(), ids=DLPERF)
def test_speed_ups_are_those_that_their_authors_printed(tmp_path: Path, table: Published) -> None:
    found = studied(tmp_path / "site", table.rates)
    said = [f"{point.speed_up.mean:.2f}" for point in found.points if point.speed_up]
    assert said == ["1.00", *table.speed_ups]


@pytest.mark.parametrize("table", MPT.values(), ids=MPT)
def test_throughputs_of_a_gpu_are_those_that_their_authors_printed(
    tmp_path: Path, table: Published
) -> None:
    found = studied(tmp_path / "site", table.rates)
    of_a_gpu = [
        point.throughput_samples_per_s.mean / point.ranks
        for point in found.points
        if point.throughput_samples_per_s
    ]
    assert tuple(int(rate + 1e-6) for rate in of_a_gpu) == table.of_a_gpu


@pytest.mark.parametrize("table", EXTRAPOLATED.values(), ids=EXTRAPOLATED)
def test_the_largest_size_is_extrapolated_from_the_smaller_ones(
    tmp_path: Path, table: Published
) -> None:
    largest = max(table.rates)
    smaller = {size: rate for size, rate in table.rates.items() if size != largest}
    found = studied(tmp_path / "site", smaller)
    prediction = found.prediction
    assert prediction and prediction.method == "universal law"
    assert any("extrapolation by the universal scalability law" in s for s in sentences(prediction))
    assert prediction.points[-1].nodes == prediction.farthest_nodes == largest[0]
    rate = prediction.points[-1].samples_per_s
    assert rate.low is not None and rate.high is not None
    error = rate.mean / table.rates[largest] - 1
    print(f"{error:+.1%} ({rate.low / rate.mean - 1:+.0%} to {rate.high / rate.mean - 1:+.0%})")
    assert rate.low <= table.rates[largest] <= rate.high
    assert abs(error) < FARTHEST_OFF or table in STARVED


def test_three_sizes_are_too_few_to_extrapolate(tmp_path: Path) -> None:
    rates = dict(list(TENSORFLOW_K80["resnet50"].rates.items())[:3])
    found = studied(tmp_path / "site", rates)
    assert found.prediction is None
    assert found.no_prediction
    assert "needs 4 different numbers of ranks, but there are 3" in found.no_prediction


def test_all_numbers_of_nodes_are_tried_for_an_answer(tmp_path: Path) -> None:
    """Of one rank a node: 10 % of a rank's time is lost with each further one."""
    rates = {(nodes, 1): 100 * nodes / (0.9 + 0.1 * nodes) for nodes in (1, 2, 4, 8)}
    rates[2, 1] *= 1.001
    studied(tmp_path / "site", rates)
    question = Question(samples=3.6e6, efficiency=0.6, node_hours=15.5)
    found = predicted(tmp_path / "site/tables", next(iter(names(tmp_path / "site"))), question)
    # 1 / (0.9 + 0.1 n) is 0.63 for 7 nodes and 0.59 for 8; n nodes take 10 (0.9 + 0.1 n) node-hours.
    assert found.nodes_with_efficiency == 7
    assert found.nodes_within == 6
    assert {6, 7} <= {point.nodes for point in found.points}


def names(results: Path) -> list[str]:
    """The experiments of a site."""
    return [one.experiment for one in summarise(results / "tables").experiments]
