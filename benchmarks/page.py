"""`make bench-page`: how long the report of 1,000 runs takes to make and to open in a browser."""

import json
import shutil
import statistics
import tempfile
import time
from pathlib import Path

import report as report_benchmark
from page_times import PageTimes, page_times
from playwright.sync_api import sync_playwright
from study_files import sample_study

from argosy.report import write_report
from argosy.report.page.page import page
from argosy.report.summary.models import read_summary
from argosy.results import collect

REPEATS = 5


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="argosy-bench-") as folder:
        sample, many = Path(folder) / "sample", Path(folder) / "many"
        sample_study(sample)
        report_benchmark.say("making 1,000 runs")
        report_benchmark.make_many(many)
        figures = {name: measured(site) for name, site in (("sample", sample), ("many", many))}
    print(f"{'median of ' + str(REPEATS):24}{'sample':>12}{'1,000 runs':>12}")
    for name in figures["many"]:
        print(f"{name:24}{figures['sample'][name]:>12.2f}{figures['many'][name]:>12.2f}")
    print(json.dumps(figures))


def measured(site: Path) -> dict[str, float]:
    """Seconds and megabytes."""
    collect(site, site / "tables")
    html = write_report(site).html
    summary = read_summary(json.loads(html.with_name("summary.json").read_text()))
    began = time.perf_counter()
    page(summary, site, site)
    made_s = time.perf_counter() - began
    times = opened(html)
    return {
        "page made, s": made_s,
        "load event, s": statistics.median(one.load_s for one in times),
        "first chart, s": statistics.median(one.first_chart_s for one in times),
        "all charts, s": statistics.median(one.all_charts_s for one in times),
        "size, MB": html.stat().st_size / 1e6,
    }


def opened(html: Path) -> list[PageTimes]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        times = [page_times(browser, html) for _ in range(REPEATS)]
        browser.close()
    return times


if __name__ == "__main__":
    main()
