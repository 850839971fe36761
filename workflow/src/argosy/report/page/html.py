"""Render self-contained HTML pages: templates, style sheet, and scripts for charts and tables."""

import base64
import hashlib
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup

from argosy.report import numbers
from argosy.report.colours import coloured
from argosy.report.drawing import Drawing
from argosy.report.page.chart_scripts import chart_scripts


def rendered(template: str, **content: Any) -> str:
    """Render a template, with the style sheet and the scripts of all pages."""
    scripts = [chart_scripts(), _file("charts.js"), _file("tables.js")]
    page = _environment().get_template(template)
    html = page.render(
        css=Markup(coloured(_file("report.css"))),
        scripts=[Markup(script) for script in scripts],
        script_sources=_sources(scripts),
        chart_data=chart_data,
        **content,
    )
    return html.lstrip() + "\n"


@cache
def _environment() -> Environment:
    """Return the environment, which compiles each template once per process."""
    environment = Environment(
        loader=PackageLoader("argosy.report.page", "."),
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
        "duration": numbers.duration,
        "moment": numbers.moment,
        "file_name": lambda path: path.rpartition("/")[2],
    }
    return environment


def _file(name: str) -> str:
    return (files("argosy.report.page") / name).read_text(encoding="utf-8")


def _sources(scripts: Iterable[str]) -> str:
    """Return the scripts' digests for the Content-Security-Policy, which blocks any other script."""
    digests = (hashlib.sha256(script.encode()).digest() for script in scripts)
    return " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)


def chart_data(drawing: Drawing) -> Markup:
    """Return a chart for charts.js, as JSON that is safe inside a script element."""
    content = {"name": drawing.name, "spec": drawing.spec, "series": drawing.series}
    return htmlsafe_json_dumps(content, separators=(",", ":"))
