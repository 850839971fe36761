"""Axe finds nothing to object to: a report can be read by everybody."""

import html
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from planned_studies import network, training
from playwright.sync_api import Page, expect
from reports import reported
from study_files import completed, plan

from argosy.report import Rates, write_comparison
from argosy.report.summary.models import read_summary

Open = Callable[..., Any]


def objections(page: Page) -> list[str]:
    """What axe finds, all of the page unfolded and drawn."""
    expect(page.locator(".chart > svg.marks")).to_have_count(page.locator("figure").count())
    page.evaluate("() => document.querySelectorAll('details').forEach((one) => one.open = true)")
    found = Axe().run(page, options={"rules": {"target-size": {"enabled": True}}}).response
    assert found["passes"]
    return [
        f"{broken['id']}: {part['html'][:200]}"
        for broken in found["violations"]
        for part in broken["nodes"]
    ]


# Axe is a script of its own, which the page's policy would not let run: hence `bypass_csp`.
@pytest.mark.parametrize(
    ("which", "scheme"), [("report", "light"), ("report", "dark"), ("hostile_report", "light")]
)
def test_axe_finds_nothing(
    which: str, scheme: str, request: pytest.FixtureRequest, opened: Open
) -> None:
    path: Path = request.getfixturevalue(which)
    assert objections(opened(path, bypass_csp=True, color_scheme=scheme).page) == []


def test_nor_in_a_table_of_experiments_nor_in_a_comparison(tmp_path: Path, opened: Open) -> None:
    results = tmp_path / "site"
    network(results)
    training(results, {1: 0.1, 2: 0.2})
    for name in ("Runs", "failures", "Machines", "Experiments"):
        completed(results, experiment=name)
    written = reported(results)
    page = opened(written.html, bypass_csp=True).page
    assert page.locator("#all-experiments tbody tr").count() == 6
    assert objections(page) == []
    summary = read_summary(json.loads(written.json.read_text()))
    write_comparison({"a": summary, "b": summary}, tmp_path / "comparison.html")
    assert objections(opened(tmp_path / "comparison.html", bypass_csp=True).page) == []


def test_nor_in_a_history_and_in_costs(tmp_path: Path, opened: Open) -> None:
    results = tmp_path / "site"
    for attempt, step_s in (("100.0", 0.1), ("200.0", 0.12)):
        for nodes in (1, 2):
            for repeat in (1, 2, 3):
                run = plan(results, "digits", nodes, 1, repeat)
                run.execute(attempt)
                run.steps(attempt, step_s=step_s + repeat / 1e4, steps=30)
        written = reported(results, Rates(price_per_node_hour=2.0, currency="EUR"))
    page = opened(written.html, bypass_csp=True).page
    assert page.locator("figure.history").count() == 1
    assert page.get_by_text("Slower than in the report of").count() == 2
    assert page.locator(".chart[aria-label^='Chart of price over hours']").count() == 1
    assert objections(page) == []


def test_a_drawn_chart_keeps_the_words_for_what_it_shows(report: Path, opened: Open) -> None:
    """Vega gives what it draws a label of its own."""
    page = opened(report).page
    charts = page.locator(".chart")
    expect(page.locator(".chart > svg.marks")).to_have_count(charts.count())
    written = re.findall(r'class="chart"[^>]*aria-label="([^"]*)"', report.read_text())
    drawn = [chart.get_attribute("aria-label") for chart in charts.all()]
    assert drawn == [html.unescape(label) for label in written]
    assert len(drawn) > 3
