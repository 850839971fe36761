"""Runs that were lost may have been the slow ones: no number that leaves them out has an interval."""

import json
import random
from pathlib import Path

import pytest
from planned_studies import STEP_S, network, training
from study_files import STARTED, plan

from argosy.report import write_report
from argosy.report.outputs.comparison import compare, findings
from argosy.report.runs.scaling import LOST
from argosy.report.summary.models import ExperimentSummary, Summary, read_summary
from argosy.report.topics import sentences
from argosy.report.topics.history import says as history
from argosy.report.topics.prediction.says import grounds
from argosy.results import collect

SIZES = (1, 2, 4, 8)
DAY = 86_400.0


def measure(
    results: Path, job: int = 100, *, lost: int = 0, factor: float = 1.0, native: bool = False
) -> None:
    """Amdahl's law; of the largest size the slowest runs are `lost`."""
    chance = random.Random(job)
    for nodes in SIZES:
        for repeat in (1, 2, 3, 4):
            name = "digits-native" if native else "digits"
            run = plan(results, name, nodes, 1, repeat, native=native)
            is_lost = nodes == SIZES[-1] and repeat > 4 - lost
            (run.path / "result.json").unlink(missing_ok=True)
            attempt, started = f"{job + repeat}.0", STARTED + job * DAY + 60 * repeat
            run.execute(attempt, "failed" if is_lost else "completed", started=started)
            if not is_lost:
                step_s = factor * (0.01 + 0.1 / nodes) * chance.gauss(1, 0.005)
                run.steps(attempt, step_s=step_s, steps=30, samples=64 // nodes)


def reported(results: Path) -> Summary:
    collect(results, results / "tables")
    return read_summary(json.loads(write_report(results).json.read_text()))


@pytest.mark.parametrize("lost", [0, 1])
def test_costs_laws_and_extrapolations(tmp_path: Path, lost: int) -> None:
    measure(tmp_path / "site", lost=lost)
    [found] = reported(tmp_path / "site").experiments
    costs = found.points[-1].costs
    assert costs
    estimates = [
        found.points[-1].throughput_samples_per_s,
        *(costs.hours, costs.node_hours, costs.charged_node_hours),
        *(one for law in found.laws for one in law.parameters.values()),
    ]
    has_interval = [one is not None and one.low is not None for one in estimates]
    assert not any(has_interval) if lost else all(has_interval[:3]) and has_interval[-1]
    assert any(law.is_best for law in found.laws) == (not lost)
    assert ("sizes that can be compared" in str(found.no_prediction)) == bool(lost)
    if lost:
        assert "8 nodes: runs that were lost may have been" in str(found.no_prediction)
        assert any("law is chosen: 8 nodes, 8 ranks: runs that" in one for one in sentences(found))


@pytest.mark.parametrize("lost", [0, 1])
def test_ratios_between_sites(tmp_path: Path, lost: int) -> None:
    measure(tmp_path / "a")
    measure(tmp_path / "b", lost=lost, factor=0.9)
    sites = {name: reported(tmp_path / name) for name in "ab"}
    for first, second in ("ab", "ba"):
        [found] = compare({first: sites[first], second: sites[second]}).experiments
        largest = found.points[-1]
        assert largest.ratio and (largest.ratio.low is None) == bool(lost)
        assert (largest.detectable is None) == bool(lost)
        said = findings(found, first)[0]
        assert ("no interval: runs that were lost may have been the slow ones" in said) == bool(
            lost
        )
        assert found.points[1].ratio and found.points[1].ratio.low


def test_the_same_runs_are_no_second_measurement(tmp_path: Path) -> None:
    """As in a copied study, or in an earlier report to which repeats of some sizes were added."""
    measure(tmp_path / "site")
    before, copied = reported(tmp_path / "site"), reported(tmp_path / "site")
    for nodes in SIZES[:2]:
        again = plan(tmp_path / "site", "digits", nodes, 1, 1)
        again.execute("900.0", started=STARTED + 900 * DAY)
        again.steps("900.0", step_s=(0.01 + 0.1 / nodes) * 0.999, steps=30, samples=64 // nodes)
    for now in (copied, reported(tmp_path / "site")):
        [found] = compare({"before": before, "now": now}).experiments
        assert [one.ratio and one.ratio.low for one in found.points if one.site == "now"] == [
            None
        ] * 4
        assert "no interval: both have some of the same runs" in findings(found, "before")[0]


@pytest.mark.parametrize("losing", ["neither", "before", "now"])
def test_changes_since_earlier_reports(tmp_path: Path, losing: str) -> None:
    measure(tmp_path / "site", 100, lost=losing == "before")
    reported(tmp_path / "site")
    measure(tmp_path / "site", 200, lost=losing == "now", factor=0.9)
    [found] = reported(tmp_path / "site").experiments
    assert found.history
    by_size = {one.nodes: one.ratio.low is not None for one in found.history.changes}
    assert by_size == {1: True, 2: True, 4: True, 8: losing == "neither"}
    [said] = history.sentences(found)
    assert ("8 nodes by" in said) == (losing == "neither")


def of_container(found: ExperimentSummary) -> list[bool]:
    return [one.cost.low is not None for one in found.container_costs]


@pytest.mark.parametrize("of_native", [True, False])
def test_the_cost_of_a_container(tmp_path: Path, of_native: bool) -> None:
    measure(tmp_path / "site", 100, lost=int(not of_native))
    measure(tmp_path / "site", 100, lost=int(of_native), native=True, factor=0.95)
    inside, _ = reported(tmp_path / "site").experiments
    assert of_container(inside) == [True, True, True, False]
    assert any("no interval, since runs" in one for one in sentences(inside))


@pytest.mark.parametrize("lost", ["", "network", "training"])
def test_allreduces_and_predictions_by_them(tmp_path: Path, lost: str) -> None:
    site = tmp_path / "site"
    network(site, repeats=3, scatter=0.005)
    for repeat, factor in ((1, 1.0), (2, 1.02), (3, 1.01)):
        training(site, {1: factor * STEP_S, 2: factor * 0.2}, repeat=repeat)
    if lost:
        run = plan(site, lost, 2, repeat=4, scaling="weak" if lost == "network" else "strong")
        run.execute(state="failed")
    times, found = (one for one in reported(site).experiments)
    by_size = {
        nodes: [one.seconds for one in times.allreduces if one.nodes == nodes] for nodes in (2, 4)
    }
    assert all((one.low is None) == (lost == "network") for one in by_size[2])
    assert all(one.low is not None for one in by_size[4])
    said = " ".join(sentences(times))
    assert ("2 nodes: no interval, since runs that were lost may" in said) == (lost == "network")
    prediction = found.prediction
    assert prediction and prediction.between_nodes
    assert (prediction.between_nodes.latency_s.low is None) == (lost == "network")
    assert all(
        (one.step_s.low is None) == bool(lost) for one in prediction.points if one.nodes <= 4
    )
    assert not lost or prediction.nodes_surely_with_efficiency is None
    told = " ".join(grounds(prediction))
    assert (f"uses sizes of which {LOST}, so it has no interval" in told) == bool(lost)


def test_the_host_of_a_node_that_did_not_start_is_unknown(tmp_path: Path) -> None:
    measure(tmp_path / "site", lost=1)
    [path] = [
        path
        for path in (tmp_path / "site").glob("digits/nodes8-*/attempts/*/verdict.json")
        if json.loads(path.read_text())["state"] == "failed"
    ]
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "hosts": [None, *content["hosts"][1:]]}))
    hosts = [run.hosts for run in reported(tmp_path / "site").runs if run.state == "failed"]
    assert hosts == [[None, *content["hosts"][1:]]]
