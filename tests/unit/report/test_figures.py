"""The Vega-Lite of charts: their content and axes."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import altair
import jsonschema
import pytest
from reports import reported_summary
from study_files import completed, sample_study

from argosy.report.drawing import Drawing
from argosy.report.outputs.paper import draw
from argosy.report.overview import overview_drawing
from argosy.report.summary.models import Summary
from argosy.report.topics import drawings


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Summary:
    results = tmp_path_factory.mktemp("figures") / "local"
    sample_study(results)
    return reported_summary(results)


def drawn(summary: Summary, place: int = 0) -> dict[str, Drawing]:
    return {one.name: one for one in drawings(summary.experiments[place])}


def rows(drawing: Drawing, data: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = drawing.spec["datasets"][data]
    return found


def wide_study(results: Path) -> Summary:
    """Both widths of nodes, from 1 to 8 of them, which scale perfectly."""
    for ranks_per_node in (1, 2):
        for nodes in (1, 2, 4, 8):
            for repeat in (1, 2):
                step_s = 0.1 * (1 + repeat / 1000)
                completed(
                    results, step_s, nodes=nodes, ranks_per_node=ranks_per_node, repeat=repeat
                )
    return reported_summary(results)


def test_charts_are_valid_vega_lite(sample: Summary, tmp_path: Path) -> None:
    folder = Path(altair.__file__).parent / "vegalite/v6/schema"
    schema = json.loads((folder / "vega-lite-schema.json").read_text())
    validator = jsonschema.Draft7Validator(schema)
    summaries = [sample, wide_study(tmp_path / "site")]
    charts = [
        one for summary in summaries for each in summary.experiments for one in drawings(each)
    ]
    assert len(charts) == 4 + 3 + 5
    for chart in charts:
        validator.validate(chart.spec)
    with pytest.raises(jsonschema.ValidationError):
        validator.validate(charts[0].spec | {"layer": [{"mark": "no such mark"}]})


def test_weak_and_strong_scaling_are_in_one_chart(sample: Summary) -> None:
    drawing = overview_drawing(sample)
    assert drawing
    assert [*drawing.series] == ["digits-mlp, strong", "resnet <b>50 &, weak"]
    sizes = [(row["series"], row["size"]) for row in rows(drawing, "means")]
    assert sizes == [
        (name, size)
        for name, ranks in zip(drawing.series, ((2, 4, 8), (1, 2)), strict=True)
        for size in ranks
    ]
    alone = replace(sample, experiments=sample.experiments[:1])
    assert overview_drawing(alone) is None


def test_the_fit_is_drawn_as_far_as_was_measured(sample: Summary) -> None:
    chart = drawn(sample)["throughput"]
    curve = rows(chart, "curve")
    assert (curve[0]["size"], curve[-1]["size"]) == (1, 4)
    assert {row["series"] for row in curve} == {"fit: Amdahl"} <= set(chart.series)
    assert "fit: Amdahl" in chart.caption
    # The curve, its legend entry, and the ideal.
    svg = draw(chart.spec)
    assert svg.count('stroke="#555555"') == 2
    assert svg.count("stroke-dasharray") == 1
    assert ">fit: Amdahl</text>" in svg


def test_without_a_fit_the_axis_ends_at_the_largest_size(sample: Summary) -> None:
    chart = drawn(sample, 1)["throughput"]
    assert not [name for name in chart.series if name.startswith("fit")]
    assert chart.spec["layer"][0]["encoding"]["x"]["scale"]["domain"] == [1 / 1.15, 1.15 * 2]


def test_what_a_pointer_is_told_is_what_the_table_says(sample: Summary) -> None:
    [_, point, _] = rows(drawn(sample)["throughput"], "means")
    assert point["at"] == "2 nodes"
    assert (point["said"], point["interval"], point["n"]) == ("1,780", "1,730 to 1,840", 3)
    percents = rows(drawn(sample)["efficiency"], "means")
    assert [row["said"] for row in percents] == ["100 %", "82 %", "66 %"]


def test_widths_are_series_and_powers_of_two_have_logarithmic_axes(tmp_path: Path) -> None:
    charts = drawn(wide_study(tmp_path / "site"))
    throughput = charts["throughput"]
    widths = ["1 rank per node", "2 ranks per node"]
    assert [*throughput.series] == [*widths, "single runs", "ideal", "fit: linear"]
    assert throughput.spec["params"] == [{"name": "shown", "value": [*throughput.series]}]
    axes = [axis(chart, "x") for chart in charts.values() if chart.kind == "scaling"]
    assert [one["scale"]["type"] for one in axes] == ["log"] * 3
    assert all(one["axis"]["values"] == [1, 2, 4, 8, 16] for one in axes)
    assert axis(throughput, "y")["scale"]["type"] == "log"
    low, high = axis(throughput, "y")["scale"]["domain"]
    rates = [row["y"] for row in (*rows(throughput, "means"), *rows(throughput, "runs"))]
    assert 0 < low < min(rates) and max(rates) < high
    assert axis(charts["efficiency"], "y")["scale"]["domain"][0] == 0


def axis(drawing: Drawing, channel: str) -> dict[str, Any]:
    found: dict[str, Any] = drawing.spec["layer"][0]["encoding"][channel]
    return found


@pytest.mark.parametrize("sizes", [(1, 2, 3), (1, 3, 12), (2,)])
def test_other_sizes_have_linear_axes(tmp_path: Path, sizes: tuple[int, ...]) -> None:
    for nodes in sizes:
        completed(tmp_path / "site", 0.1 / nodes, nodes=nodes)
    # A run that is far off leaves no chart.
    for repeat, step_s in ((2, 0.1), (3, 0.001)):
        completed(tmp_path / "site", step_s / sizes[-1], nodes=sizes[-1], repeat=repeat)
    charts = drawn(reported_summary(tmp_path / "site"))
    rates = [row["y"] for row in rows(charts["throughput"], "runs")]
    assert max(rates) < axis(charts["throughput"], "y")["scale"]["domain"][1]
    for chart in charts.values():
        if chart.kind == "scaling":
            assert "type" not in axis(chart, "x")["scale"] | axis(chart, "y")["scale"]
            assert axis(chart, "x")["axis"]["values"] == [*sizes]
            assert axis(chart, "x")["scale"]["domain"] == [0, 1.06 * sizes[-1]]
