"""How long a page with charts takes to open in a browser."""

from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser

_SEEN = """() => new Promise((done) => {
  const look = () => {
    if (!document.querySelector("svg.marks")) return setTimeout(look, 5);
    const [navigation] = performance.getEntriesByType("navigation");
    done([navigation.loadEventEnd / 1000, performance.now() / 1000]);
  };
  look();
})"""
_ALL = """() => new Promise((done) => {
  const charts = document.querySelectorAll(".chart");
  const look = () => {
    const left = [...charts].filter((chart) => !chart.querySelector("svg.marks"));
    if (left.length > 0) return setTimeout(look, 20);
    done(performance.now() / 1000);
  };
  look();
})"""


@dataclass(frozen=True)
class PageTimes:
    """Seconds from the start of navigation: until the load event, the first chart, and the last one."""

    load_s: float
    first_chart_s: float
    all_charts_s: float


def page_times(browser: Browser, path: Path) -> PageTimes:
    """Open a page that has charts, in a context of its own."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.goto(path.as_uri())
    load_s, first_s = page.evaluate(_SEEN)
    all_s = page.evaluate(_ALL)
    context.close()
    return PageTimes(load_s, first_s, all_s)
