"""A sweep has a table of its combinations; ranks that fill a node and then more nodes are one curve."""

import json
from pathlib import Path
from typing import Any

import pytest
from reports import reported
from rich.console import Console
from study_files import completed, plan, write_json

from argosy.report import write_report
from argosy.report.kept_reports import read_report
from argosy.report.outputs.terminal import print_summary
from argosy.report.topics import sweep
from argosy.results import collect


def note(path: Path, point: object) -> None:
    """Note a sweep in provenance.json, as planning does."""
    content = json.loads((path / "provenance.json").read_text())
    content["experiment"]["sweep"] = point
    write_json(path / "provenance.json", content)


def point(results: Path, lr: str, step_s: float, nodes: int = 1, **asked: Any) -> None:
    for repeat in (1, 2, 3):
        run = completed(
            results,
            step_s * (1 + repeat / 100),
            {"final_loss": float(lr)},
            experiment=f"train-lr{lr}",
            command=f"python3 train.py {lr}",
            nodes=nodes,
            repeat=repeat,
            **asked,
        )
        note(run.path, {"of": "train", "values": {"lr": lr}})


def written(results: Path) -> tuple[dict[str, Any], str]:
    files = reported(results)
    return json.loads(files.json.read_text()), files.html.read_text()


def rows(html: str) -> list[str]:
    table = html.split('aria-label="Sweep of train"')[1].split("</table>", maxsplit=1)[0]
    return [" ".join(row.split()) for row in table.split("<tr>")[2:]]


def test_combinations_are_compared_at_the_largest_size_the_fastest_first(tmp_path: Path) -> None:
    results = tmp_path / "site"
    point(results, "0.1", 0.2, nodes=2)
    point(results, "0.1", 0.01)
    point(results, "0.2", 0.1, nodes=2)
    point(results, "0.3", 0.01)
    lost = plan(results, "train-lr0.3", nodes=2, command="python3 train.py 0.3")
    note(lost.path, {"of": "train", "values": {"lr": "0.3"}})
    lost.execute(state="failed")
    completed(results, experiment="other")
    summary, html = written(results)
    assert "Sweep of train: combinations on 2 nodes, the fastest first" in html
    fastest, slower, without = rows(html)
    assert "train-lr0.2" in fastest and "627" in fastest and "0.200" in fastest
    assert "train-lr0.1" in slower
    assert "train-lr0.3" in without and "–" in without
    sweeps = {one["experiment"]: one.get("sweep") for one in summary["experiments"]}
    assert sweeps["train-lr0.1"] == {"of": "train", "values": {"lr": "0.1"}}
    assert sweeps["other"] is None and '"sweep": null' not in json.dumps(summary)
    console = Console(width=200, record=True, file=(tmp_path / "out").open("w"))
    print_summary(summary, console)
    assert "train-lr0.2" not in console.export_text().partition("Sweep of train")[2]
    native = completed(results, nodes=2, experiment="train-lr0.2-native", native=True)
    note(native.path, {"of": "train", "values": {"lr": "0.2"}})
    summary, _ = written(results)
    for each in summary["experiments"]:
        each["unit"] = "cells"
    print_summary(summary, console)
    said = console.export_text().partition("Sweep of train")[2]
    assert "train-lr0.2-native" in said and "cells/s" in said


def test_the_unit_is_of_a_combination_that_was_measured(tmp_path: Path) -> None:
    results, tokens = tmp_path / "site", {"pattern": "([0-9.]+) tok/s", "per": "token"}
    for number in (1, 2):
        run = plan(results, f"e{number}", command=f"true {number}", throughput=tokens)
        note(run.path, {"of": "train", "values": {"lr": str(number)}})
        run.execute(state="failed" if number == 1 else "completed")
    run.printed([100.0, 101.0, 100.0])
    _, html = written(results)
    heading = html.split('aria-label="Sweep of train"')[1].partition("</tr>")[0]
    assert "Tokens/s" in heading and "Samples/s" not in heading


def test_placeholders_named_like_other_columns_are_in_braces(tmp_path: Path) -> None:
    results = tmp_path / "site"
    for number in (1, 2):
        run = completed(results, experiment=f"e{number}", command=f"true {number}")
        note(run.path, {"of": "train", "values": {"n": str(number), "lr": "1"}})
    collect(results, results / "tables")
    write_report(results)
    _, summary = read_report(results)
    [table] = sweep.tables(summary)
    assert [each.terminal for each in table.columns[1:4]] == ["{n}", "lr", "n"]


def test_what_another_program_wrote_is_no_sweep(tmp_path: Path) -> None:
    results = tmp_path / "site"
    for number, odd in enumerate(
        ([], {}, {"of": "train"}, {"of": 1, "values": []}, "text", 5, None)
    ):
        note(completed(results, experiment=f"e{number}").path, odd)
    summary, html = written(results)
    assert not any("sweep" in one for one in summary["experiments"])
    assert "Sweeps</h2>" not in html


def test_values_are_texts_and_no_markup(tmp_path: Path) -> None:
    results = tmp_path / "site"
    for number in (1, 2):
        run = completed(results, experiment=f"e{number}", command=f"true {number}")
        note(run.path, {"of": "train", "values": {"<b>": f"<script>\u001b{number}"}})
    _, html = written(results)
    assert "&lt;b&gt;" in html and "<b>" not in html and "<script>\u001b" not in html


def test_ranks_that_fill_a_node_and_then_more_nodes_are_one_curve(tmp_path: Path) -> None:
    results = tmp_path / "site"
    for nodes, width in ((1, 1), (1, 2), (1, 4), (2, 4)):
        for repeat in (1, 2, 3):
            step_s = 0.1 * (1 + 0.01 * nodes * width + repeat / 1000)
            completed(results, step_s, nodes=nodes, ranks_per_node=width, repeat=repeat)
    summary, html = written(results)
    [experiment] = summary["experiments"]
    assert experiment["base"] == {"ranks": 1, "nodes": 1, "ranks_per_node": 1}
    assert [one["ranks"] for one in experiment["points"]] == [1, 2, 4, 8]
    found = [one["efficiency"]["mean"] for one in experiment["points"]]
    assert found == pytest.approx([1.01 / (1 + 0.01 * ranks) for ranks in (1, 2, 4, 8)], abs=0.002)
    assert '"1 rank per node"' not in html
    assert '"title":"ranks"' in html
    predicted = experiment["prediction"]
    assert predicted["method"] == "universal law"
    measured = {one["nodes"]: one["measured_samples_per_s"] for one in predicted["points"]}
    assert measured[1] and measured[2] and not measured[4]
