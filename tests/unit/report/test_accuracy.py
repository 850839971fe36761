"""What the training came to, by point."""

from pathlib import Path

import pytest
from reports import studied
from study_files import completed

from argosy.report.runs.measurements import Point
from argosy.report.topics.accuracy import Outcome, outcomes

ONE = ("digits", Point(1, 1, 1))


def found(results: Path) -> dict[tuple[str, Point], Outcome]:
    with studied(results) as tables:
        return outcomes(tables)


def test_mean_lowest_and_agreement(tmp_path: Path) -> None:
    for repeat, accuracy in ((1, 0.94), (2, 0.96)):
        metrics = {"test_accuracy": accuracy, "weights_identical": True}
        completed(tmp_path, repeat=repeat, metrics=metrics)
    outcome = found(tmp_path)[ONE]
    assert outcome.test_accuracy is not None
    assert (outcome.test_accuracy.n, outcome.test_accuracy.mean) == (2, pytest.approx(0.95))
    assert outcome.test_accuracy_min == 0.94
    assert (outcome.weights_identical, outcome.weights_compared_runs) == (True, 2)


def test_one_run_that_disagrees_is_enough(tmp_path: Path) -> None:
    for repeat, identical in ((1, True), (2, False)):
        completed(tmp_path, repeat=repeat, metrics={"weights_identical": identical})
    outcome = found(tmp_path)[ONE]
    assert outcome.weights_identical is False
    assert (outcome.test_accuracy, outcome.test_accuracy_min) == (None, None)


def test_the_last_value_of_a_run_is_the_final_one(tmp_path: Path) -> None:
    run = completed(tmp_path, metrics={"test_accuracy": 0.9})
    with run.rank_file("100.0", 0).open("a") as lines:
        lines.write('{"kind": "metric", "name": "test_accuracy", "value": 0.5, "at": 1000.0}\n')
    outcome = found(tmp_path)[ONE]
    assert outcome.test_accuracy is not None and outcome.test_accuracy.mean == 0.9


def test_not_a_number_is_no_accuracy(tmp_path: Path) -> None:
    completed(tmp_path, metrics={"test_accuracy": float("nan"), "weights_identical": True})
    outcome = found(tmp_path)[ONE]
    assert (outcome.test_accuracy, outcome.weights_identical) == (None, True)


def test_a_model_that_learned_nothing_is_at_a_tenth_of_a_per_cent(tmp_path: Path) -> None:
    """Of a program that counts in per cent, no size and no combination of a sweep counts in shares."""
    for nodes, name, accuracy in ((1, "a", 76.0), (4, "a", 0.1), (1, "b", 0.5), (1, "c", 0.9)):
        program = "other.py" if name == "c" else "train.py"
        run = completed(tmp_path, nodes=nodes, experiment=name, metrics={"test_accuracy": accuracy})
        run.claim(programs={f"/workloads/{program}": "sha256:" + "ab" * 32})
    means = {
        (name, point.nodes): outcome.test_accuracy and outcome.test_accuracy.mean
        for (name, point), outcome in found(tmp_path).items()
    }
    assert means == {
        ("a", 1): pytest.approx(0.76),
        ("a", 4): pytest.approx(0.001),
        ("b", 1): pytest.approx(0.005),
        ("c", 1): pytest.approx(0.9),
    }


def test_nothing_recorded_nothing_said(tmp_path: Path) -> None:
    completed(tmp_path)
    assert found(tmp_path) == {}
