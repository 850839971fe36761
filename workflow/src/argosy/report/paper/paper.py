"""What a paper takes from a report: charts as SVG and PDF, tables as LaTeX and CSV."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import vl_convert

from argosy.files import replacing, write_text
from argosy.report.charts.chart_scripts import VEGA_LITE
from argosy.report.charts.figures import Drawing, drawings
from argosy.report.paper.latex import latex_tables
from argosy.report.summary.models import ExperimentSummary, Summary
from argosy.report.summary_csv import summary_csv

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
