"""Whatever a program records of its results is in the report."""

import json
import math
from pathlib import Path

import pytest
from reports import reported, reported_text
from study_files import completed, plan

from argosy.report import Rates, write_report
from argosy.results import collect


def test_numbers_have_a_table_and_rows(tmp_path: Path) -> None:
    results = tmp_path / "site"
    for repeat, area in ((1, 0.90), (2, 0.92), (3, 0.91)):
        metrics = {
            "roc_area": area,
            "time_to_score_s": 10.0 * repeat,
            "note": "text",
            "test_accuracy": 0.9,
            "<b>odd</b>": math.inf,
        }
        completed(results, repeat=repeat, metrics=metrics)
    completed(results, nodes=2, metrics={"roc_area": 0.91})
    files = reported(results)
    [experiment] = json.loads(files.json.read_text())["experiments"]
    one, two = (point["metrics"] for point in experiment["points"])
    assert set(one) == {"roc_area", "time_to_score_s"}
    assert one["roc_area"]["mean"] == pytest.approx(0.91)
    assert one["roc_area"]["low"] < 0.90 and one["roc_area"]["high"] > 0.92
    assert one["time_to_score_s"]["n"] == 3
    assert two["roc_area"]["low"] is None
    table = files.html.read_text().split('aria-label="Metrics of digits"')[1].split("</table>")[0]
    assert '<th scope="col">roc_area</th><th scope="col">time_to_score_s</th>' in table
    assert "0.91" in table
    rows = (results / "summary.csv").read_text().splitlines()
    assert any(",metric_roc_area,,3,0.91" in row for row in rows)


@pytest.mark.parametrize("last", [math.nan, math.inf, 1e200, "nan", "-Infinity"])
def test_a_run_that_diverged_has_no_final_value(tmp_path: Path, last: float | str) -> None:
    """Its last finite loss is none, of whatever rank; a NaN that a training overcame is."""
    results = tmp_path / "site"
    for repeat, losses in ((1, [9.0, 0.5]), (2, [last, 0.3]), (3, [7.0, last])):
        run = completed(results, repeat=repeat, nodes=2)
        for rank in (0, 1):
            with run.rank_file("100.0", rank).open("a") as lines:
                for at, loss in enumerate(losses if rank else [8.0, 0.5]):
                    record = {"kind": "metric", "name": "loss", "value": loss, "at": 1000.0 + at}
                    lines.write(json.dumps(record) + "\n")
    collect(results, results / "tables")
    files = write_report(results)
    [experiment] = json.loads(files.json.read_text())["experiments"]
    loss = experiment["points"][0]["metrics"]["loss"]
    assert (loss["n"], loss["mean"]) == (2, pytest.approx(0.45))
    html = files.html.read_text()
    assert "nodes2-ranks1-repeat3: Loss is" in html and "<small>of 2 of 3 runs</small>" in html


def test_utilisation_is_of_what_the_nodes_could_compute(tmp_path: Path) -> None:
    for repeat, step_s in ((1, 0.1), (2, 0.11)):
        completed(tmp_path / "site", step_s, {"flops_per_sample": 2e9}, nodes=2, repeat=repeat)
    collect(tmp_path / "site", tmp_path / "site/tables")
    rates = Rates(peak_tflops_per_node=10.0)
    files = write_report(tmp_path / "site", rates=rates)
    [experiment] = json.loads(files.json.read_text())["experiments"]
    [point] = experiment["points"]
    expected = point["throughput_samples_per_s"]["mean"] * 2e9 / 2e13
    assert point["flops_utilisation"]["mean"] == pytest.approx(expected)
    assert point["flops_utilisation"]["low"] < expected < point["flops_utilisation"]["high"]
    table = files.html.read_text().split('aria-label="Metrics of digits"')[1].split("</table>")[0]
    assert "over 10.0 TFLOP/s a node" in " ".join(table.split())
    assert f"{100 * expected:.1f} %" in table
    # Without a known peak there is no utilisation.
    files = write_report(tmp_path / "site")
    assert "FLOPs utilisation" not in files.html.read_text()


def test_a_peak_is_that_of_the_worst_rank_with_its_unit(tmp_path: Path) -> None:
    run = plan(tmp_path / "site", nodes=4)
    run.execute()
    for rank in range(4):
        run.steps(steps=30, metrics={"peak_memory_bytes": (rank + 1) * 2**30}, ranks=[rank])
    files = reported(tmp_path / "site")
    [experiment] = json.loads(files.json.read_text())["experiments"]
    assert experiment["points"][0]["metrics"]["peak_memory_bytes"]["mean"] == 4 * 2**30
    table = files.html.read_text().split('aria-label="Metrics of digits"')[1].split("</table>")[0]
    assert "4 GiB" in table


@pytest.mark.parametrize(("larger", "is_said"), [(0.97, True), (0.9795, False)])
def test_a_loss_of_accuracy_with_nodes_is_said(
    tmp_path: Path, larger: float, is_said: bool
) -> None:
    for repeat, off in enumerate((-0.001, 0.0, 0.001), start=1):
        for nodes, accuracy in ((1, 0.98), (4, larger)):
            metrics = {"test_accuracy": accuracy + off}
            completed(tmp_path / "site", nodes=nodes, repeat=repeat, metrics=metrics)
    text = reported_text(tmp_path / "site")
    assert ("with 1 node. A larger global batch" in text) == is_said


def test_without_any_there_is_no_table(tmp_path: Path) -> None:
    completed(tmp_path / "site", metrics={"test_accuracy": 0.9})
    assert "Metrics of" not in reported(tmp_path / "site").html.read_text()
