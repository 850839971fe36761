"""The HTML page: the summary through a template, with everything it needs inside it."""

import os
from importlib.resources import files
from pathlib import Path, PurePosixPath
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from argosy.report import numbers, words
from argosy.report.figures import figures
from argosy.report.laws import MISSES, NAMES
from argosy.report.models import Summary
from argosy.units import amount


def page(summary: Summary, results_dir: Path, out_dir: Path) -> str:
    """The report as HTML that asks nothing of the network.

    Links to log files lead from `out_dir`, where the page will lie, to `results_dir`.
    """
    to_results = Path(os.path.relpath(results_dir, out_dir)).as_posix()

    def link(path: str) -> str:
        return quote(f"{to_results}/{path}")

    environment = Environment(
        loader=PackageLoader("argosy.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "number": numbers.number,
        "percent": numbers.percent,
        "interval": numbers.interval,
        "percent_interval": numbers.percent_interval,
        "probability": numbers.probability,
        "amount": lambda size: amount(round(size)),
        "duration": numbers.duration,
        "moment": numbers.moment,
        "states": words.states,
        "file_name": lambda path: PurePosixPath(path).name,
        "link": link,
    }
    html = environment.get_template("report.html.j2").render(
        summary=summary,
        css=Markup((files("argosy.report") / "report.css").read_text(encoding="utf-8")),
        findings=words.findings,
        figures=figures,
        phase_names=words.phase_names,
        factor_names=words.factor_names,
        remarks=words.remarks,
        slow_hosts=words.slow_hosts,
        warm_up=words.warm_up,
        law_names=NAMES,
        misses=MISSES,
    )
    return html.lstrip() + "\n"
