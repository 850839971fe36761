"""Charts as SVG and PDF and tables in LaTeX (package booktabs), for papers."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from argosy.report.drawing import Drawing
from argosy.report.numbers import MINUS, NONE, interval, mean_text, number
from argosy.report.outputs.summary_csv import summary_csv
from argosy.report.page.chart_scripts import VEGA_LITE
from argosy.report.summary.models import ExperimentSummary, Summary
from argosy.report.table import Cell, Table
from argosy.report.topics import drawings, paper_tables
from argosy_common.errors import ArgosyError
from argosy_common.files import replacing, write_text


@dataclass(frozen=True)
class LatexTable:
    """A table; `name` is its file name without the experiment and suffix."""

    name: str
    text: str


def latex_tables(experiment: ExperimentSummary) -> Iterator[LatexTable]:
    """Yield the tables with numbers: scaling, factors, stalls and prediction."""
    for table in paper_tables(experiment):
        yield LatexTable(table.name, _tabular(experiment, table))


def _tabular(experiment: ExperimentSummary, table: Table) -> str:
    columns = [one for one in table.columns if one.paper]
    rows = zip(*(map(_latex, one.cells) for one in columns), strict=True)
    lines = [
        f"% {' '.join(experiment.experiment.split())}, {table.paper}; 95 % intervals.",
        rf"\begin{{tabular}}{{{'r' * len(columns)}}}",
        r"\toprule",
        rf"{' & '.join(one.paper for one in columns)} \\",
        r"\midrule",
        *(rf"{' & '.join(row)} \\".replace(MINUS, "$-$") for row in rows),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


def _latex(cell: Cell) -> str:
    """Format a cell for LaTeX; an estimate has its interval in brackets."""
    found = cell.estimate
    if found is None:
        return "--" if cell.text == NONE else cell.text
    if found.low is None or found.high is None:
        return number(found.mean)
    return f"{mean_text(found)} [{interval(found).replace(' to ', ', ')}]"


_HEIGHT = 290
"""Height of a chart with a legend, in px; charts of the page have none."""


def write_paper(summary: Summary, folder: Path) -> list[Path]:
    """Write a report's charts and tables to `folder`, and replace files of the same names.

    Each chart is written as SVG and PDF, with its caption as text; tables as LaTeX; all numbers as
    summary.csv.

    Returns:
        The paths, in the order of the report.
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
    """Return a chart as SVG; fetching data is disabled."""
    svg: str = _renderer().vegalite_to_svg(spec, vl_version=VEGA_LITE, allowed_base_urls=[])
    return svg


def _renderer() -> ModuleType:
    """Import vl-convert, an optional dependency.

    Raises:
        ArgosyError: It is not installed.
    """
    try:
        import vl_convert
    except ImportError:
        raise ArgosyError(
            "figures need vl-convert, and this environment does not have it",
            "pip install 'argosy[figures]'",
        ) from None
    return vl_convert


def _write_chart(drawing: Drawing, path: Path) -> list[Path]:
    svg, pdf = path.with_suffix(".svg"), path.with_suffix(".pdf")
    spec = drawing.spec | {"height": _HEIGHT}
    write_text(svg, draw(spec))
    with replacing(pdf) as temporary:
        pdf_bytes = _renderer().vegalite_to_pdf(spec, vl_version=VEGA_LITE, allowed_base_urls=[])
        temporary.write_bytes(pdf_bytes)
    caption = path.with_suffix(".txt")
    write_text(caption, f"{drawing.caption}\n\n{drawing.text}\n")
    return [svg, pdf, caption]


def _names(experiments: Sequence[ExperimentSummary]) -> list[str]:
    """Return unique names of experiments that are valid on any file system."""
    names: list[str] = []
    for experiment in experiments:
        name = re.sub(r"[^A-Za-z0-9_-]+", "-", experiment.experiment).strip("-") or "experiment"
        while name in names:
            name += "-"
        names.append(name)
    return names
