"""Predictions from tables of studies whose network is known."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from one_step import model_at
from planned_studies import ALPHA_S, BYTE_S, STEP_S, network, training, training_of_ranks
from reports import reported, studied
from study_files import completed

from argosy.report import Rates
from argosy.report.runs.measurements import Point, measurements
from argosy.report.runs.study_tables import open_study
from argosy.report.summary.parts import PredictionSummary
from argosy.report.topics.phases import step_times
from argosy.report.topics.prediction.answers import Question
from argosy.report.topics.prediction.inputs import everything, known_training
from argosy.report.topics.prediction.measured import horovod_settings
from argosy.report.topics.prediction.predicted import predicted
from argosy.report.topics.prediction.says import sentences
from argosy.report.topics.prediction.step import Horovod
from argosy.report.topics.prediction.training import KnownTraining, slowest_of
from argosy.results import collect
from argosy_common.errors import ArgosyError

RANKS_ARE_ALIKE = (
    "No steps of two or more ranks have the phase `communication`, so the slowest rank is "
    "assumed to be no slower on more nodes."
)
SCATTER_IS_UNKNOWN = (
    "No size has two runs, so the scatter of runs is unknown, and no prediction has an interval."
)
QUESTION = Question(nodes=(1, 2, 4, 8), samples=1e6)


def answers(results: Path, question: Question = QUESTION, **more: str) -> PredictionSummary:
    collect(results, results / "tables")
    return predicted(results / "tables", "training", question, **more)


def test_the_network_is_found_and_what_was_measured_stands_beside(tmp_path: Path) -> None:
    network(tmp_path / "site")
    training(tmp_path / "site", {1: STEP_S, 2: 0.2, 4: 0.3})
    found = answers(tmp_path / "site")
    assert found.collectives == "network"
    assert found.algorithm == "ring"
    assert found.between_nodes
    assert found.between_nodes.latency_s.mean == pytest.approx(ALPHA_S)
    assert found.between_nodes.bytes_per_s
    assert found.between_nodes.bytes_per_s.mean == pytest.approx(1 / BYTE_S)
    assert [point.nodes for point in found.points][:3] == [1, 2, 4]
    one, two, four = found.points[:3]
    assert one.step_s.mean == pytest.approx(STEP_S, rel=0.01)
    assert one.error == pytest.approx(0.0, abs=1e-9)
    assert one.measured_samples_per_s == pytest.approx(32 / STEP_S, rel=0.01)
    assert two.measured_samples_per_s == pytest.approx(64 / 0.2, rel=0.01)
    # 13 MB take over 0.13 s on two nodes, and half as much more on four.
    assert one.step_s.mean < two.step_s.mean < four.step_s.mean
    assert four.error == pytest.approx(four.step_s.mean / 0.3 - 1, abs=0.01)
    assert found.notes == [
        RANKS_ARE_ALIKE,
        "The runs on one node and on two do not show how runs scatter, so the network is assumed "
        "to be as fast as in the benchmark; raise scale.repeats.",
        SCATTER_IS_UNKNOWN,
    ]


def test_a_slow_job_does_not_change_the_batch(tmp_path: Path) -> None:
    """Its steps are three times as long; the batch is constant although `scale.kind` is strong."""
    network(tmp_path / "site")
    for repeat in (1, 2, 3):
        training(tmp_path / "site", {1: STEP_S, 2: 0.6 if repeat == 3 else 0.2}, repeat=repeat)
    eight = answers(tmp_path / "site").points[-1]
    assert eight.samples_per_s.mean == pytest.approx(8 * 32 / eight.step_s.mean)


def test_the_measured_step_is_the_geometric_mean_of_the_runs(tmp_path: Path) -> None:
    """One slow job in three: 0.4, 0.2 and 0.2 s are 0.25 s by the time of a sample, as for throughput."""
    network(tmp_path / "site")
    for repeat, step_s in enumerate((0.4, 0.2, 0.2), start=1):
        training(tmp_path / "site", {1: step_s, 2: 2 * step_s}, repeat=repeat)
    one, two = answers(tmp_path / "site").points[:2]
    assert one.measured_samples_per_s == pytest.approx(32 / (0.2 * 2 ** (1 / 3)), rel=0.002)
    assert two.measured_samples_per_s == pytest.approx(64 / (0.4 * 2 ** (1 / 3)), rel=0.002)
    assert one.samples_per_s.mean == pytest.approx(one.measured_samples_per_s)


def test_the_slowest_of_many_ranks_makes_the_step(tmp_path: Path) -> None:
    """Ranks that differ by 5 % in a step: the slowest of 512 takes 16 % longer than a rank in the mean."""
    results, chance = tmp_path / "site", np.random.default_rng(3)
    network(results)
    own_work_s = {n: STEP_S * np.exp(0.05 * chance.standard_normal((300, n))) for n in (1, 2)}
    training_of_ranks(results, own_work_s)
    said = next(
        note for note in answers(results).notes if note.startswith("Ranks' own work differs")
    )
    spread = float(said.split()[5]) / 100
    assert spread == pytest.approx(0.05, rel=0.15)
    with open_study(results / "tables") as tables:
        found = everything(tables, measurements(tables), step_times(tables), {})
    known = known_training(found, "training")
    assert isinstance(known, KnownTraining)
    many, one = (model_at(known.training, nodes).own_s for nodes in (512, 1))
    assert many / one == pytest.approx(slowest_of(512, spread), rel=0.002)
    assert many / one == pytest.approx(1.16, abs=0.03)


def test_a_size_alone_does_not_tell_of_the_batches_on_more(tmp_path: Path) -> None:
    network(tmp_path / "site")
    training(tmp_path / "site", {1: STEP_S})
    with pytest.raises(ArgosyError, match=r"on more ranks or is divided; include 2 in the list"):
        answers(tmp_path / "site")


def test_answers_are_among_the_rows_and_in_words(tmp_path: Path) -> None:
    network(tmp_path / "site")
    training(tmp_path / "site", {1: STEP_S, 2: 0.2})
    found = answers(tmp_path / "site", replace(QUESTION, efficiency=0.4, node_hours=4.0))
    nodes = [point.nodes for point in found.points]
    assert found.nodes_with_efficiency in nodes
    assert found.nodes_within in nodes
    efficiencies = {point.nodes: point.efficiency.mean for point in found.points}
    assert found.nodes_with_efficiency and efficiencies[found.nodes_with_efficiency] >= 0.4
    within = next(point for point in found.points if point.nodes == found.nodes_within)
    assert within.node_hours.mean <= 4.0
    said = " ".join(sentences(found))
    assert f"The efficiency is 40 % or more up to {found.nodes_with_efficiency} node" in said
    assert "No size has two runs, so the scatter of runs is unknown" in said
    assert found.nodes_surely_with_efficiency is None
    assert all(point.step_s.low is point.step_s.high is None for point in found.points)
    assert f"Fastest within 4.00 node-hours: {found.nodes_within} node" in said
    assert "1,000 µs a message, 100 MB/s" in said


def repeated(results: Path, steps_s: dict[int, float], scatter: float, repeats: int = 3) -> None:
    """A training whose runs scatter, the same at each size."""
    for repeat in range(1, repeats + 1):
        factor = math.exp(scatter * (repeat - (repeats + 1) / 2))
        steps = {nodes: step_s * factor for nodes, step_s in steps_s.items()}
        training(results, steps, repeat=repeat)


def test_the_interval_is_that_of_a_run_to_come(tmp_path: Path) -> None:
    network(tmp_path / "site")
    repeated(tmp_path / "site", {1: STEP_S, 2: 0.28}, scatter=0.05)
    found = answers(tmp_path / "site")
    one = found.points[0].step_s
    assert one.low is not None and one.high is not None
    # Three runs each of two sizes: t with 4 degrees of freedom, for the error of the mean and of the run.
    half = 2.776 * 0.05 * math.sqrt(1 + 1 / 3)
    assert math.log(one.high / one.mean) == pytest.approx(half, rel=0.1)
    assert math.log(one.mean / one.low) == pytest.approx(half, rel=0.1)
    likely, surely = found.nodes_with_efficiency, found.nodes_surely_with_efficiency
    assert likely is not None and surely is not None
    assert surely <= likely


def test_beyond_what_was_measured_there_is_no_interval(tmp_path: Path) -> None:
    """Steps on one node and two and allreduces on two and four tell nothing of a fifth node's cable."""
    network(tmp_path / "site", repeats=3)
    repeated(tmp_path / "site", {1: 2.0, 2: 2.1}, scatter=0.01)
    found = answers(tmp_path / "site", Question(efficiency=0.5))
    assert [point.nodes for point in found.points] == [1, 2, 4, 8, 16]
    known = [point.nodes for point in found.points if point.samples_per_s.low is not None]
    assert known == [1, 2, 4]
    assert all(
        (point.efficiency.low is None) == (point.hours.low is None) == (point.nodes > 4)
        for point in found.points
    )
    assert (found.nodes_with_efficiency, found.nodes_surely_with_efficiency) == (16, 4)
    said = " ".join(sentences(found))
    assert "up to 16 nodes, the largest predicted size, by the best estimate, and surely" in said
    assert "does not include shared cables and switches" in said
    assert "Nothing was measured on more than 4 nodes. Rows beyond are extrapolated" in said
    asked = answers(tmp_path / "site", Question(nodes=(64,), efficiency=0.5))
    assert asked.points[-1].nodes == 64
    assert asked.points[-1].step_s and asked.points[-1].step_s.low is None


def test_what_was_measured_outranks_the_prediction(tmp_path: Path) -> None:
    """By the benchmark, two nodes would be as efficient as one; in training they are not."""
    network(tmp_path / "site")
    repeated(tmp_path / "site", {1: 2.0, 2: 3.5, 4: 3.6}, scatter=0.3)
    found = answers(tmp_path / "site")
    assert found.points[1].efficiency.mean > 0.5
    assert found.nodes_with_efficiency == 1


def test_a_prediction_that_misses_answers_of_measured_sizes_alone(tmp_path: Path) -> None:
    network(tmp_path / "site")
    repeated(tmp_path / "site", {1: 2.0, 2: 2.2, 4: 4.6}, scatter=0.001)
    found = answers(tmp_path / "site", replace(QUESTION, node_hours=100.0))
    assert found.misses == [4]
    assert (found.nodes_with_efficiency, found.nodes_surely_with_efficiency) == (2, None)
    assert found.nodes_within is None
    said = " ".join(sentences(found))
    assert "The measurement on 4 nodes lies outside the prediction" in said
    assert (
        "an efficiency of 80 % or more is measured up to 2 nodes, and other sizes are unknown"
        in said
    )


def test_what_had_to_be_assumed_is_said(tmp_path: Path) -> None:
    network(tmp_path / "site", nodes=(2,))
    training(tmp_path / "site", {1: STEP_S}, timed=False, scaling="weak")
    assert answers(tmp_path / "site").notes == [
        "Allreduces over one number of ranks cannot show the algorithm; a ring is assumed.",
        "The allreduces of network come from only two jobs, so intervals exclude network "
        "differences between jobs; raise its scale.repeats.",
        "The ready times of gradients were not measured; they are estimated from bytes.",
        RANKS_ARE_ALIKE,
        "Nothing was measured on two nodes, so the network is assumed to be as fast as in the "
        "benchmark.",
        SCATTER_IS_UNKNOWN,
    ]


@pytest.mark.parametrize(
    ("environment", "note"),
    [
        (
            {"HOROVOD_CYCLE_TIME": "40", "HOROVOD_FUSION_THRESHOLD": "0"},
            "Horovod's cycle time is 40 ms and its fusion threshold 0 MiB, as set for the runs.",
        ),
        ({"HOROVOD_CYCLE_TIME": "soon", "HOROVOD_FUSION_THRESHOLD": "-1"}, None),
        ({}, None),
    ],
)
def test_what_horovod_was_told_is_predicted_with(
    tmp_path: Path, environment: dict[str, str], note: str | None
) -> None:
    network(tmp_path / "site")
    for repeat in (1, 2):
        step_s = {1: STEP_S + repeat / 1e4, 2: 0.24 + repeat / 1e4}
        training(tmp_path / "site", step_s, repeat=repeat, **environment)
    with studied(tmp_path / "site") as tables:
        found = horovod_settings(tables)["training", Point(1, 1, 1)]
    told = Horovod(0.040, 0.0) if note else Horovod()
    assert found == told
    predicted = answers(tmp_path / "site")
    assert predicted.notes == [*([note] if note else []), RANKS_ARE_ALIKE]


def test_energy_and_prices(tmp_path: Path) -> None:
    network(tmp_path / "site")
    training(tmp_path / "site", {1: STEP_S}, scaling="weak")
    collect(tmp_path / "site", tmp_path / "site/tables")
    rates = Rates(price_per_node_hour=2.0, currency="EUR")
    (one, *_) = predicted(tmp_path / "site/tables", "training", QUESTION, rates).points
    assert one.price
    assert one.price.mean == pytest.approx(2 * one.node_hours.mean)
    assert one.energy_kwh is None


@pytest.mark.slow
def test_refusals_say_what_to_do(tmp_path: Path) -> None:
    results = tmp_path / "site"
    training(results, {2: 0.2})
    with pytest.raises(ArgosyError, match=r"^training: No allreduces were measured; run .* on 2"):
        answers(results)
    network(results)
    with pytest.raises(
        ArgosyError, match=r"^training: .* on one node; include 1 in the list scale\.nodes"
    ):
        answers(results)
    completed(results, experiment="training")
    with pytest.raises(ArgosyError, match=r"^training: No gradients were recorded on one node"):
        answers(results)
    network(results, name="again")
    with pytest.raises(ArgosyError, match="again, network; choose one with --collectives"):
        answers(results)
    with pytest.raises(ArgosyError, match="Experiment nothing measured no allreduces; again, netw"):
        answers(results, collectives="nothing")
    with pytest.raises(ArgosyError, match=r"^other: no such experiment .* again, network, train"):
        predicted(results / "tables", "other", QUESTION)


def test_what_ddp_exchanges_is_not_predicted_as_horovod_s(tmp_path: Path) -> None:
    network(tmp_path / "site")
    training(tmp_path / "site", {1: STEP_S, 2: 0.2}, launcher="torch")
    with pytest.raises(
        ArgosyError, match=r"model Horovod's exchange of gradients, but the launcher"
    ):
        answers(tmp_path / "site")


def test_the_report_has_it_or_says_why_not(tmp_path: Path) -> None:
    results = tmp_path / "site"
    network(results)
    training(results, {1: STEP_S, 2: 0.2})
    written = reported(results)
    summary = json.loads(written.json.read_text())
    of_network, of_training = summary["experiments"]
    assert of_network["prediction"] is None
    assert of_network["no_prediction"] == "It measures allreduces and trains nothing."
    assert of_training["no_prediction"] is None
    assert of_training["prediction"]["points"][1]["measured_samples_per_s"] == pytest.approx(
        320, rel=0.01
    )
    assert {run["left_out"] for run in summary["runs"]} == {None, "it only benchmarks allreduces"}
    text = written.html.read_text()
    assert "Prediction: more nodes than were measured" in text
    assert "Predicted beside measured." in text
    assert "No prediction: It measures allreduces and trains nothing." in text
