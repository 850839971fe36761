"""Runs of one experiment that were not run alike are told apart, and nothing of them is averaged."""

import csv
from pathlib import Path
from typing import Any

import pytest
from planned_studies import STEP_S as TRAINING_STEP_S
from planned_studies import network, training
from reports import reported_json
from rich.console import Console
from stalled_studies import stalled
from study_files import plan

from argosy.report.outputs.terminal import print_summary
from argosy.report.topics.prediction.answers import Question
from argosy.report.topics.prediction.predicted import predicted as answer
from argosy.results import ResultsError, collect

OLD, NEW = "ab", "cd"


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """One node with two images, two nodes with the newer one, which is four times as fast."""
    results = tmp_path / "site"
    for nodes, repeat, digest, step_s in (
        (1, 1, OLD, 0.4),
        (1, 2, OLD, 0.4),
        (1, 3, NEW, 0.1),
        (2, 1, NEW, 0.05),
    ):
        run = plan(results, nodes=nodes, repeat=repeat, digest=digest)
        run.execute()
        run.steps(step_s=step_s, steps=30, samples=32 // nodes)
    plan(results, nodes=2, repeat=2, digest=NEW)
    return results


def test_images_are_not_averaged_and_have_bases_of_their_own(mixed: Path) -> None:
    old, new = reported_json(mixed)["experiments"]
    assert [old["experiment"], new["experiment"]] == ["digits #1", "digits #2"]
    assert old["asked_experiment"] == new["asked_experiment"] == "digits"
    rates = [
        [point["throughput_samples_per_s"]["mean"] for point in one["points"]] for one in (old, new)
    ]
    assert rates == [[pytest.approx(80)], [pytest.approx(320), pytest.approx(640, rel=0.01)]]
    assert [point["speed_up"]["mean"] for point in new["points"]] == [1, pytest.approx(2, rel=0.01)]
    assert (old["states"], new["states"]) == ({"completed": 2}, {"completed": 2, "pending": 1})


def test_it_is_said_first_on_the_page_and_in_the_terminal(mixed: Path) -> None:
    summary = reported_json(mixed)
    said = (
        "The runs of digits are not repeats of each other: they differ in image. They are not averaged, "
        "but reported separately. digits #1, 2 completed runs: image torch-cpu sha256:abababababab; "
        "digits #2, 2 completed runs: image torch-cpu sha256:cdcdcdcdcdcd."
    )
    page = (mixed / "report.html").read_text()
    assert said in page
    assert page.index(said) < page.index("samples per second (")
    console = Console(width=1000, record=True, quiet=False)
    print_summary(summary, console)
    assert said in console.export_text()


def test_each_run_says_what_it_counts_to(mixed: Path) -> None:
    summary = reported_json(mixed)
    assert {run["experiment"] for run in summary["runs"]} == {"digits"}
    told = {run["run_id"]: run["counted_as"] for run in summary["runs"]}
    assert told["nodes1-ranks1-repeat1"] == "digits #1"
    assert told["nodes1-ranks1-repeat3"] == told["nodes2-ranks1-repeat2"] == "digits #2"
    assert "It belongs to digits #1." in (mixed / "report.html").read_text()
    rows = csv.DictReader((mixed / "summary.csv").open())
    assert {row["experiment"] for row in rows} == {"digits #1", "digits #2"}


def test_the_report_of_kept_findings_is_the_same(mixed: Path) -> None:
    first = reported_json(mixed)
    assert (mixed / "tables/step_findings.parquet").is_file()
    assert reported_json(mixed) == first


def test_runs_of_one_setup_have_no_number(tmp_path: Path) -> None:
    for nodes in (1, 2):
        run = plan(tmp_path / "site", nodes=nodes)
        run.execute()
        run.steps()
    summary = reported_json(tmp_path / "site")
    assert [one["experiment"] for one in summary["experiments"]] == ["digits"]
    assert {run["counted_as"] for run in summary["runs"]} == {None}
    assert "not repeats of each other" not in (tmp_path / "site/report.html").read_text()


def test_a_training_of_two_images_is_predicted_by_name(tmp_path: Path) -> None:
    results = tmp_path / "site"
    network(results)
    training(results, {1: TRAINING_STEP_S, 2: 0.2})
    run = plan(results, "training", 4, digest=NEW)
    run.execute()
    run.steps()
    collect(results, results / "tables")
    question = Question(nodes=(1, 2, 4))
    with pytest.raises(ResultsError, match=r"have different setups.*training #1, training #2"):
        answer(results / "tables", "training", question)
    found = answer(results / "tables", "training #1", question)
    assert [point.measured_samples_per_s is None for point in found.points] == [False, False, True]
    with pytest.raises(ResultsError, match="needs steps recorded on one node"):
        answer(results / "tables", "training #2", question)


def test_allreduces_of_another_image_are_told(tmp_path: Path) -> None:
    results = tmp_path / "site"
    network(results, digest=NEW, hardware="gpu")
    for repeat in (1, 2):
        training(results, {1: TRAINING_STEP_S, 2: 0.2}, repeat=repeat)
    collect(results, results / "tables")
    notes = answer(results / "tables", "training", Question(nodes=(1,))).notes
    assert [note.partition(":")[0] for note in notes][:2] == [
        "The allreduces of network and the training differ in image",
        "The allreduces of network and the training differ in hardware",
    ]


@pytest.mark.parametrize(
    ("changed", "what"),
    [({"digest": NEW}, "image"), ({"command": "python3 other.py"}, "command")],
)
def test_stalls_are_not_told_by_other_runs_than_those_of_their_study(
    tmp_path: Path, changed: dict[str, Any], what: str
) -> None:
    results = tmp_path / "site"
    stalled(results, as_it_is=changed)
    (found,) = (
        one for one in reported_json(results)["experiments"] if one["experiment"] == "training"
    )
    [point] = found["stalls"]
    assert point["shares"] == {}
    assert point["refused"] == (
        "no run with synthetic data on one rank and one node and this size is completed with the same "
        + what
    )
