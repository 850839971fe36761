"""What a paper takes from a report: charts as SVG and PDF, tables as LaTeX and CSV."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from argosy.analysis.statistics import Estimate
from argosy.files import replacing, write_text
from argosy.report.export import summary_csv
from argosy.report.figures import Drawing, draw, draw_pdf, drawings
from argosy.report.models import ExperimentSummary, PointSummary, Summary
from argosy.report.numbers import number


def write_paper(summary: Summary, folder: Path) -> list[Path]:
    """Write a report's charts and tables to `folder`; returns the files, in the order of the report.

    Each chart is there as SVG and PDF, each experiment's table as LaTeX (for the package booktabs), all
    numbers as summary.csv. Files of that name are replaced.
    """
    written = [folder / "summary.csv"]
    write_text(written[0], summary_csv(summary))
    for experiment, name in zip(summary.experiments, _names(summary.experiments), strict=True):
        for drawing in drawings(experiment):
            written += _write_chart(drawing, folder / f"{name}-{drawing.name}")
        if experiment.points:
            table = folder / f"{name}-scaling.tex"
            write_text(table, latex_table(experiment))
            written.append(table)
    return written


def latex_table(experiment: ExperimentSummary) -> str:
    """Throughput, speed-up and efficiency of each size, with intervals, as a LaTeX tabular."""
    rows = (" & ".join(_cells(point)) for point in experiment.points)
    lines = [
        f"% {' '.join(experiment.experiment.split())}, {experiment.scaling} scaling; 95 % intervals.",
        r"\begin{tabular}{rrrrrr}",
        r"\toprule",
        r"Nodes & Ranks & Runs & Samples/s & Speed-up & Efficiency \\",
        r"\midrule",
        *(f"{row} \\\\" for row in rows),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


def _cells(point: PointSummary) -> Iterator[str]:
    rate = point.throughput_samples_per_s
    yield from (str(point.nodes), str(point.ranks), str(rate.n if rate else 0))
    yield from (_with_interval(one) for one in (rate, point.speed_up, point.efficiency))


def _with_interval(estimate: Estimate | None) -> str:
    if estimate is None:
        return "--"
    if estimate.low is None or estimate.high is None:
        return number(estimate.mean)
    parts = (number(value) for value in (estimate.mean, estimate.low, estimate.high))
    return "{} [{}, {}]".format(*parts)


def _write_chart(drawing: Drawing, path: Path) -> list[Path]:
    svg, pdf = path.with_suffix(".svg"), path.with_suffix(".pdf")
    write_text(svg, draw(drawing.spec))
    with replacing(pdf) as temporary:
        temporary.write_bytes(draw_pdf(drawing.spec))
    return [svg, pdf]


def _names(experiments: Sequence[ExperimentSummary]) -> list[str]:
    """Names of experiments that any file system takes, different from each other."""
    names: list[str] = []
    for experiment in experiments:
        name = re.sub(r"[^A-Za-z0-9_-]+", "-", experiment.experiment).strip("-") or "experiment"
        while name in names:
            name += "-"
        names.append(name)
    return names
