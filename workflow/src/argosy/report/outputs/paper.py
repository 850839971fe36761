"""Charts as SVG and PDF, and tables in LaTeX (package booktabs), for papers; intervals are 95 %."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import vl_convert

from argosy.report import sizes
from argosy.report.drawing import Drawing
from argosy.report.numbers import MINUS, number
from argosy.report.outputs.summary_csv import summary_csv
from argosy.report.page.html import VEGA_LITE
from argosy.report.sizes import Size
from argosy.report.statistics.estimates import Estimate
from argosy.report.summary.models import ExperimentSummary, Summary
from argosy.report.topics import drawings
from argosy.report.topics.losses import factor_names
from argosy.report.topics.stalls import part_names
from argosy_common.files import replacing, write_text

_NONE = "--"


@dataclass(frozen=True)
class LatexTable:
    """A table and what to call it: the file's name, without the experiment's."""

    name: str
    text: str


def latex_tables(experiment: ExperimentSummary) -> Iterator[LatexTable]:
    """Yield those that the experiment has numbers for: scaling, factors, stalls and prediction."""
    if experiment.points:
        yield LatexTable("scaling", scaling_table(experiment))
    if names := factor_names(experiment):
        of_sizes = [(point, point.factors) for point in experiment.points]
        text = _of_parts(experiment, "factors of the efficiency", names, of_sizes)
        yield LatexTable("factors", text)
    if names := part_names(experiment):
        of_stalls = [(one, one.shares) for one in experiment.stalls]
        text = _of_parts(experiment, "shares of a step by what it waits for", names, of_stalls)
        yield LatexTable("stalls", text)
    if experiment.prediction:
        yield LatexTable("prediction", _prediction(experiment))


def scaling_table(experiment: ExperimentSummary) -> str:
    """Throughput, speed-up and efficiency of each size, with intervals, as a LaTeX tabular."""
    columns = ("Nodes", "Ranks", "Runs", "Samples/s", "Speed-up", "Efficiency")
    rows = []
    for point in experiment.points:
        size = (str(point.nodes), str(point.ranks), sizes.counted(experiment, point))
        estimates = (point.throughput_samples_per_s, point.speed_up, point.efficiency)
        rows.append([*size, *map(_with_interval, estimates)])
    return _tabular(experiment, f"{experiment.scaling} scaling", columns, rows)


def _of_parts(
    experiment: ExperimentSummary,
    what: str,
    names: Sequence[str],
    of_sizes: Iterable[tuple[Size, Mapping[str, Estimate]]],
) -> str:
    """Return a table of the parts with these names, of each size that has any."""
    rows = [
        [str(one.nodes), str(one.ranks), *(_with_interval(parts.get(name)) for name in names)]
        for one, parts in of_sizes
        if parts
    ]
    headings = (name.replace("_", " ").capitalize() for name in names)
    return _tabular(experiment, what, ("Nodes", "Ranks", *headings), rows)


def _prediction(experiment: ExperimentSummary) -> str:
    assert experiment.prediction
    rows = [
        [
            str(point.nodes),
            str(point.ranks),
            _with_interval(point.samples_per_s),
            _NONE if point.measured_samples_per_s is None else number(point.measured_samples_per_s),
            _NONE if point.error is None else f"{round(100 * point.error, 1) + 0.0:+.1f}",
            number(point.efficiency.mean),
        ]
        for point in experiment.prediction.points
    ]
    columns = ("Nodes", "Ranks", "Samples/s", "Measured", r"Error (\%)", "Efficiency")
    return _tabular(experiment, "predicted and measured throughput", columns, rows)


def _with_interval(estimate: Estimate | None) -> str:
    if estimate is None:
        return _NONE
    if estimate.low is None or estimate.high is None:
        return number(estimate.mean)
    parts = map(number, (estimate.mean, estimate.low, estimate.high))
    return "{} [{}, {}]".format(*parts)


def _tabular(
    experiment: ExperimentSummary, what: str, columns: Sequence[str], rows: Sequence[Sequence[str]]
) -> str:
    lines = [
        f"% {' '.join(experiment.experiment.split())}, {what}; 95 % intervals.",
        rf"\begin{{tabular}}{{{'r' * len(columns)}}}",
        r"\toprule",
        rf"{' & '.join(columns)} \\",
        r"\midrule",
        *(rf"{' & '.join(row)} \\".replace(MINUS, "$-$") for row in rows),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


_HEIGHT = 290
"""With a legend; a chart of the page is flatter and has none."""


def write_paper(summary: Summary, folder: Path) -> list[Path]:
    """Write a report's charts and tables to `folder`; returns the files, in the order of the report.

    Each chart is there as SVG and PDF with a legend, and its caption as a text; each experiment's tables
    as LaTeX (for the package booktabs), all numbers as summary.csv. Files of that name are replaced.
    """
    written = [folder / "summary.csv"]
    write_text(written[0], summary_csv(summary))
    for experiment, name in zip(summary.experiments, _names(summary.experiments), strict=True):
        for drawing in drawings(experiment, summary.rates.currency):
            written += _write_chart(drawing, folder / f"{name}-{drawing.name}")
        for table in latex_tables(experiment):
            written.append(folder / f"{name}-{table.name}.tex")
            write_text(written[-1], table.text)
    return written


def draw(spec: dict[str, Any]) -> str:
    """Return a chart as SVG. No chart may fetch anything: the data is in it."""
    return vl_convert.vegalite_to_svg(spec, vl_version=VEGA_LITE, allowed_base_urls=[])


def _write_chart(drawing: Drawing, path: Path) -> list[Path]:
    svg, pdf = path.with_suffix(".svg"), path.with_suffix(".pdf")
    spec = drawing.spec | {"height": _HEIGHT}
    write_text(svg, draw(spec))
    with replacing(pdf) as temporary:
        pdf_bytes = vl_convert.vegalite_to_pdf(spec, vl_version=VEGA_LITE, allowed_base_urls=[])
        temporary.write_bytes(pdf_bytes)
    caption = path.with_suffix(".txt")
    write_text(caption, f"{drawing.caption}\n\n{drawing.text}\n")
    return [svg, pdf, caption]


def _names(experiments: Sequence[ExperimentSummary]) -> list[str]:
    """Return names of experiments that any file system takes, different from each other."""
    names: list[str] = []
    for experiment in experiments:
        name = re.sub(r"[^A-Za-z0-9_-]+", "-", experiment.experiment).strip("-") or "experiment"
        while name in names:
            name += "-"
        names.append(name)
    return names
