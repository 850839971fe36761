"""The report of a thousand runs: small enough, quick enough, and usable."""

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import pytest
from page_times import page_times
from playwright.sync_api import Browser, expect

from argosy.report.page.page import page
from argosy.report.summary.models import read_summary

RUNS = 1000
# `make bench-page` holds it to 2 s; a busy machine is allowed more.
BOUND_S = 15


@pytest.fixture(scope="module")
def large(report: Path) -> Path:
    """The page of ten experiments and a thousand runs, which are those of the usual study over again."""
    few = read_summary(json.loads(report.with_name("summary.json").read_text()))
    runs = [
        replace(run, run_id=f"{run.run_id}-{place}")
        for place, run in enumerate(islice(cycle(few.runs), RUNS))
    ]
    path = report.with_name("large.html")
    many = replace(few, experiments=few.experiments * 5, runs=runs)
    path.write_text(page(many, report.parent, report.parent))
    return path


def test_a_thousand_runs_open_quickly_and_are_small(large: Path, browser: Browser) -> None:
    assert large.stat().st_size < 5e6
    times = page_times(browser, large)
    assert 0 < times.load_s <= times.first_chart_s <= times.all_charts_s
    assert times.first_chart_s < BOUND_S


def test_they_are_counted_filtered_and_sorted(large: Path, opened: Callable[..., Any]) -> None:
    seen = opened(large)
    count = seen.page.locator(".filter output")
    expect(count).to_have_text("1,000 of 1,000 runs")
    seen.page.get_by_role("searchbox").fill("cancelled digits")
    expect(count).to_have_text("77 of 1,000 runs")
    expect(seen.page.locator("#all-runs tbody tr:visible")).to_have_count(77)
    seen.page.locator("#all-runs thead th", has_text="Run").get_by_role("button").click()
    names = seen.texts("#all-runs tbody tr:visible > th")
    places = [int(name.rpartition("-")[2]) for name in names]
    assert places == sorted(places)
    assert len(set(places)) == 77
    assert seen.console == []
