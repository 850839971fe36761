"""The report in a real browser: it draws, it asks for nothing, it has no errors, it prints."""

import json
import re
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from reports import reported_summary
from study_files import plan

from argosy.report import write_comparison
from argosy.report.summary.models import Summary
from argosy.report.summary.parts import Rates

Open = Callable[..., Any]

WIDE, NARROW = {"width": 1440, "height": 900}, {"width": 390, "height": 844}


def all_drawn(page: Page) -> None:
    expect(page.locator(".chart > svg.marks")).to_have_count(page.locator("figure").count())


def overflow(page: Page) -> int:
    width: int = page.evaluate("() => document.documentElement.scrollWidth - innerWidth")
    return width


def test_all_charts_are_drawn_without_error_or_request(report: Path, opened: Open) -> None:
    seen = opened(report)
    expect(seen.page.locator("figure")).to_have_count(8)
    all_drawn(seen.page)
    assert seen.console == []
    assert seen.requests == [report.as_uri()]
    assert seen.page.locator(".chart").first.locator(".mark-symbol path").count() >= 3


def test_the_console_and_the_requests_are_really_watched(tmp_path: Path, opened: Open) -> None:
    path = tmp_path / "bad.html"
    path.write_text("<script src='other.js'></script><script>console.error('seen')</script>")
    seen = opened(path)
    assert "seen" in seen.console
    assert seen.requests == [path.as_uri(), (tmp_path / "other.js").as_uri()]


def test_charts_out_of_sight_are_drawn_later(report: Path, opened: Open) -> None:
    seen = opened(report, viewport={"width": 1200, "height": 200})
    all_drawn(seen.page)


def test_names_do_no_harm(hostile_report: Path, opened: Open) -> None:
    seen = opened(hostile_report)
    all_drawn(seen.page)
    assert seen.page.title() == "Scaling report: <b>site"
    assert seen.page.locator("script").count() == 3 + seen.page.locator("figure").count()
    assert "document.title='harmed'" in seen.page.locator("h2").first.inner_text()
    seen.page.locator(".chart .mark-symbol path[fill='#0072B2']").first.hover()
    expect(seen.page.locator("#vg-tooltip-element")).to_be_visible()
    assert seen.console == []
    assert seen.requests == [hostile_report.as_uri()]


def test_the_page_runs_no_script_of_others(report: Path, opened: Open) -> None:
    path = report.with_name("injected.html")
    path.write_text(
        report.read_text().replace("<h1>", "<script>document.title='harmed'</script><h1>")
    )
    seen = opened(path)
    path.unlink()
    assert seen.page.title() != "harmed"
    assert [line for line in seen.console if "Content Security Policy" in line]


def test_the_page_reaches_nobody(report: Path, opened: Open) -> None:
    seen = opened(report)
    refused = seen.page.evaluate(
        "() => fetch('summary.json').then(() => 'answered', (error) => error.name)"
    )
    assert refused == "TypeError"
    assert [line for line in seen.console if "Content Security Policy" in line]


@pytest.mark.parametrize("viewport", [WIDE, NARROW], ids=["wide", "narrow"])
def test_nothing_is_wider_than_the_window(report: Path, opened: Open, viewport: Any) -> None:
    seen = opened(report, viewport=viewport)
    all_drawn(seen.page)
    seen.page.evaluate(
        "() => document.querySelectorAll('details').forEach((one) => one.open = true)"
    )
    assert overflow(seen.page) <= 0


def summary_at(site: Path) -> Summary:
    """All that a report can know: waits, energy of processors and GPUs, prices, wide numbers."""
    for nodes in (1, 16):
        for repeat, factor in enumerate((0.98, 1.0, 1.03), 1):
            run = plan(site, nodes=nodes, ranks_per_node=4, repeat=repeat, queue="gpu")
            run.execute(seconds=5000.0)
            run.submitted(20000.0 * factor)
            run.steps(step_s=0.1234 * factor, samples=1000)
            for node in range(nodes):
                run.telemetry(node, gpus=4, interval_s=0.25)
    rates = Rates(price_per_node_hour=4.2, currency="EUR", carbon_g_per_kwh=300.0)
    return reported_summary(site, rates)


def test_the_widest_tables_fit_the_window(tmp_path: Path, opened: Open) -> None:
    summary = summary_at(tmp_path / "site")
    compared = tmp_path / "comparison.html"
    write_comparison({"marenostrum5": summary, "juwels-booster": replace(summary)}, compared)
    for page, region in (
        (compared, "digits at the sites"),
        (tmp_path / "site/report.html", "Scaling of digits"),
    ):
        seen = opened(page, viewport=WIDE).page.get_by_role("region", name=region)
        assert "kWh" in seen.inner_text() and "Queue wait" in seen.inner_text()
        assert seen.evaluate("(box) => box.scrollWidth - box.clientWidth") <= 0


def test_contents_are_beside_a_wide_page_and_folded_on_a_narrow_one(
    report: Path, opened: Open
) -> None:
    for viewport, is_beside in ((WIDE, True), (NARROW, False)):
        page = opened(report, viewport=viewport).page
        assert page.get_by_role("navigation").get_by_role("link").last.is_visible() == is_beside
        assert page.locator("nav summary").is_visible() != is_beside
    page.locator("nav summary").click()
    expect(page.get_by_role("navigation").get_by_role("link").last).to_be_visible()


@pytest.mark.parametrize("viewport", [WIDE, NARROW], ids=["wide", "narrow"])
def test_the_first_screen_says_how_many_nodes_to_take(
    tmp_path: Path, opened: Open, viewport: Any
) -> None:
    summary_at(tmp_path / "site")
    page = opened(tmp_path / "site/report.html", viewport=viewport).page
    answer = page.locator(".answer")
    assert answer.inner_text().startswith("16 nodes are 16.0 times as fast as 1 node (")
    assert "Take 16 nodes" in answer.locator("strong").inner_text()
    shown = [answer, page.locator(".figures svg").first]
    if viewport is WIDE:
        shown.append(page.locator("#experiment-1-scaling tbody tr").last)
    for one in shown:
        box = one.bounding_box()
        assert box and box["y"] + box["height"] <= viewport["height"]


def test_answers_of_several_experiments_are_read_on_a_phone(report: Path, opened: Open) -> None:
    page = opened(report, viewport=NARROW).page
    answers = page.locator("#all-experiments td.sentences").all()
    assert len(answers) == 2
    for answer in answers:
        box = answer.bounding_box()
        assert box and box["x"] + box["width"] <= NARROW["width"]


def test_hostile_names_are_broken_to_fit(hostile_report: Path, opened: Open) -> None:
    seen = opened(hostile_report, viewport=NARROW)
    all_drawn(seen.page)
    assert overflow(seen.page) <= 0


def colour(page: Page, selector: str, style: str) -> str:
    found: str = page.locator(selector).first.evaluate(
        "(element, style) => getComputedStyle(element)[style]", style
    )
    return found


@pytest.mark.parametrize(
    ("scheme", "colours"),
    [
        ("light", ("rgb(255, 255, 255)", "rgb(27, 31, 36)", "rgb(0, 114, 178)")),
        ("dark", ("rgb(20, 24, 29)", "rgb(230, 233, 236)", "rgb(86, 180, 233)")),
    ],
)
def test_charts_follow_a_light_or_a_dark_page(
    report: Path, opened: Open, scheme: str, colours: tuple[str, str, str]
) -> None:
    seen = opened(report, color_scheme=scheme)
    page_colour, ink, blue = colours
    all_drawn(seen.page)
    assert colour(seen.page, "body", "backgroundColor") == page_colour
    assert colour(seen.page, ".chart text", "fill") == ink
    assert colour(seen.page, ".scaling .mark-symbol path[fill='#0072B2']", "fill") == blue
    assert colour(seen.page, ".controls rect[fill='#0072B2']", "fill") == blue


def test_without_scripts_the_page_says_where_the_numbers_are(report: Path, opened: Open) -> None:
    seen = opened(report, java_script_enabled=False)
    said = seen.texts(".chart")
    assert len(said) == 8
    assert all(text.endswith("the table has the numbers.") for text in said)
    assert seen.page.locator("figcaption a").count() == 8
    assert not seen.page.locator(".filter").is_visible()
    # A line or two, and no empty box in which a chart would be.
    heights = [
        box["height"] for one in seen.page.locator(".chart").all() if (box := one.bounding_box())
    ]
    assert len(heights) == 8
    assert max(heights) < 60


def printed_text(pdf: Path) -> str:
    command = ["pdftotext", str(pdf), "-"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_all_charts_are_printed(report: Path, opened: Open, tmp_path: Path) -> None:
    never_idle = "window.requestIdleCallback = () => {}"
    seen = opened(report, before=never_idle, viewport={"width": 1200, "height": 300})
    seen.page.wait_for_timeout(300)
    assert seen.page.locator("svg.marks").count() < 8
    seen.page.pdf(path=tmp_path / "report.pdf")
    text = printed_text(tmp_path / "report.pdf")
    lines = text.splitlines()
    assert (lines.count("samples per second"), lines.count("speed-up")) == (2, 2)
    assert lines.count("milliseconds per step") == 1
    assert "fit: Amdahl" in lines
    assert "nodes8-ranks2-" in text
    assert "Only runs with" not in text
    # No buttons; the date, the study and the page at the foot.
    assert not {"PNG", "SVG", "CSV"} & {*lines}
    assert "Argosy · 2027-01-15 · study " in text
    assert [line for line in lines if re.fullmatch(r"1 ?/ ?\d", line)]


@pytest.mark.parametrize("scripts", [True, False])
def test_what_is_folded_is_printed(
    report: Path, opened: Open, tmp_path: Path, scripts: bool
) -> None:
    seen = opened(report, java_script_enabled=scripts)
    seen.page.pdf(path=tmp_path / "report.pdf")
    text = " ".join(printed_text(tmp_path / "report.pdf").split())
    for said in (
        "Mean milliseconds of a step in each phase",
        "Laws fitted to the throughput",
        "rank-3 of nodes4-ranks2-repeat3",
        "RUN pip install torch",
        "Throughput as printed by the program.",
    ):
        assert said in text
    # Not cut off at the edge of the sheet, wherever it is broken.
    assert text.replace(" ", "").count("rank-15.log") == 1
    # It is folded again on the screen.
    assert seen.page.locator("details[open]").count() == 0


def test_older_browsers_unfold_by_the_event(report: Path, opened: Open) -> None:
    page = opened(report).page
    page.locator("main details > summary").first.click()
    page.evaluate("() => window.dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details:not([open])").count() == 0
    page.evaluate("() => window.dispatchEvent(new Event('afterprint'))")
    assert page.locator("details[open]").count() == 1


def test_the_remarks_are_wide_enough_to_be_read(report: Path, opened: Open) -> None:
    page = opened(report, viewport={"width": 1280, "height": 900}).page
    page.locator("#all-runs").scroll_into_view_if_needed()
    box = page.locator("#all-runs tbody tr").first.locator("td").last.bounding_box()
    assert box
    assert box["width"] >= 250
    # And they are in sight.
    assert box["x"] + box["width"] <= 1280


def test_the_command_line_prints_the_charts_too(report: Path, tmp_path: Path) -> None:
    pdf = tmp_path / "report.pdf"
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]
    command += [f"--user-data-dir={tmp_path / 'profile'}", f"--print-to-pdf={pdf}", report.as_uri()]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    assert printed_text(pdf).splitlines().count("speed-up") == 2


def test_data_of_charts_is_in_the_page(report: Path, opened: Open) -> None:
    texts = opened(report).page.locator("figure > script").all_text_contents()
    assert all("spec" in json.loads(text) for text in texts)
