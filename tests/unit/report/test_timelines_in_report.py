"""Horovod's timelines in the report: a chart, a table, a sentence, and why there are none."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import altair
import jsonschema
import pytest
from horovod_timelines import Event, add_timeline, begin, end, exchange, fused
from reports import reported
from rich.console import Console
from step_files import change_clock
from study_files import STARTED, plan

from argosy.report.outputs.paper import draw
from argosy.report.outputs.terminal import print_summary
from argosy.report.summary.models import read_summary
from argosy.report.topics import drawings
from argosy.report.topics.timelines import part_of

STEPS = 15


def timed(results: Path, events: list[Event], **asked: Any) -> None:
    """A run of 15 steps with a timeline."""
    run = plan(results, timeline=True, **asked)
    run.execute()
    run.steps(steps=STEPS, warm_up_s=0.1)
    add_timeline(run, events)


def each_step(tensors: int = 3) -> list[Event]:
    """In each step as many gradients in one buffer; first a broadcast, which is in no step."""
    first = exchange(0, tensor=99, operation="BROADCAST")
    return [
        *first,
        *(event for step in range(1, STEPS + 1) for event in fused(100_000 * step, tensors)),
    ]


def written(results: Path) -> tuple[dict[str, Any], str]:
    files = reported(results)
    (experiment,) = json.loads(files.json.read_text())["experiments"]
    return experiment, files.html.read_text()


def test_the_numbers_and_the_sentence(tmp_path: Path) -> None:
    for repeat in (1, 2, 3):
        timed(tmp_path / "site", each_step(), nodes=2, repeat=repeat)
    experiment, html = written(tmp_path / "site")
    (point,) = experiment["timelines"]
    assert (point["nodes"], point["ranks"], point["refused"]) == (2, 2, None)
    seconds = {name: part["mean"] for name, part in point["seconds_per_step"].items()}
    assert seconds == pytest.approx({"negotiation": 0.010, "copies": 0.002, "operation": 0.004})
    shares = {name: part["mean"] for name, part in point["shares"].items()}
    assert shares == pytest.approx({"negotiation": 0.10, "copies": 0.02, "operation": 0.04})
    assert point["shares"]["negotiation"]["n"] == 3
    sentence = html.split("With 2 nodes Horovod&#39;s longest part is ")[1].split("</li>")[0]
    assert sentence.startswith("negotiation, 10.0 ms per step (10 % of the step&#39;s time")
    assert "negotiation is waiting for the slowest rank" in sentence
    assert "is unknown" in sentence
    assert "<summary>Horovod timelines</summary>" in html
    assert 'id="experiment-1-timeline"' in html


def test_the_terminal_and_the_csv_have_them_too(tmp_path: Path) -> None:
    timed(tmp_path / "site", each_step(), nodes=2)
    written(tmp_path / "site")
    console = Console(record=True, width=200, file=io.StringIO())
    print_summary(json.loads((tmp_path / "site/summary.json").read_text()), console)
    assert "Horovod's longest part is negotiation, 10.0 ms per step" in console.export_text()
    rows = list(csv.DictReader((tmp_path / "site/summary.csv").open()))
    seconds = {row["quantity"]: row for row in rows if row["quantity"].startswith("timeline_")}
    assert [*seconds] == ["timeline_negotiation", "timeline_copies", "timeline_operation"]
    assert float(seconds["timeline_copies"]["mean"]) == pytest.approx(0.002)


def test_the_chart_is_valid_and_drawn(tmp_path: Path) -> None:
    timed(tmp_path / "site", each_step(), nodes=2)
    written(tmp_path / "site")
    summary = read_summary(json.loads((tmp_path / "site/summary.json").read_text()))
    (chart,) = [one for one in drawings(summary.experiments[0]) if one.name == "timeline"]
    schema = Path(altair.__file__).parent / "vegalite/v6/schema/vega-lite-schema.json"
    jsonschema.Draft7Validator(json.loads(schema.read_text())).validate(chart.spec)
    assert [*chart.series] == ["negotiation", "copies", "operation"]
    svg = draw(chart.spec)
    assert all(colour in svg for colour in chart.series.values())


def test_an_experiment_without_timelines_says_nothing_of_them(tmp_path: Path) -> None:
    run = plan(tmp_path / "site")
    run.execute()
    run.steps()
    experiment, html = written(tmp_path / "site")
    assert experiment["timelines"] == []
    assert "Horovod&#39;s" not in html and "What Horovod did" not in html


@pytest.mark.parametrize("events", [[], [*exchange(0, operation="BROADCAST")]])
def test_why_there_are_no_numbers(tmp_path: Path, events: list[Event]) -> None:
    timed(tmp_path / "site", events)
    experiment, html = written(tmp_path / "site")
    assert experiment["timelines"][0]["refused"] == "they contain no exchange of gradients"
    assert "timelines with 1 node: they contain no exchange of gradients." in html


def test_without_steps_nothing_is_said_of_a_step(tmp_path: Path) -> None:
    run = plan(tmp_path / "site", timeline=True)
    run.execute()
    run.printed([100.0])
    add_timeline(run, each_step())
    experiment, _ = written(tmp_path / "site")
    assert experiment["timelines"][0]["refused"] == "their programs recorded no steps"


def test_steps_before_the_last_job_count_no_more_than_its_timeline(tmp_path: Path) -> None:
    run = plan(tmp_path / "site", timeline=True)
    run.execute("100.0", state="interrupted")
    run.execute("101.0")
    run.claim("101.0", continues=("100.0", 5))
    run.steps("100.0", steps=5)
    run.steps("101.0", first_step=5, steps=STEPS)
    change_clock(run.steps_file("100.0", 0), 0, STARTED + 2 - 1000, 1000.0)
    events = [event for step in range(10) for event in exchange(100_000 * step)]
    add_timeline(run, events, "101.0")
    experiment, _ = written(tmp_path / "site")
    seconds = experiment["timelines"][0]["seconds_per_step"]["negotiation"]["mean"]
    assert seconds == pytest.approx(0.010)


def test_hostile_names_are_text(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>"
    events = [*each_step(), begin(evil, 9e6), begin("GLOO_" + evil, 9e6), end(9.1e6), end(9.2e6)]
    timed(tmp_path / "site", events, experiment="a <b> & 'c'")
    experiment, html = written(tmp_path / "site")
    assert experiment["timelines"][0]["shares"]
    assert evil not in html
    assert "Timelines of a &lt;b&gt; &amp; &#39;c&#39;" in html


@pytest.mark.parametrize(
    ("activity", "part"),
    [
        ("NEGOTIATE_ALLREDUCE", "negotiation"),
        ("QUEUE", "queue"),
        ("WAIT_FOR_DATA", "queue"),
        ("WAIT_FOR_OTHER_TENSOR_DATA", "queue"),
        ("MEMCPY_IN_FUSION_BUFFER", "copies"),
        ("NCCL_ALLREDUCE", "operation"),
        ("MPI_ALLREDUCE", "operation"),
        ("INIT_FUSION_BUFFER", "other"),
        ("SOMETHING_NEW", "other"),
    ],
)
def test_parts_of_activities(activity: str, part: str) -> None:
    assert part_of(activity) == part
