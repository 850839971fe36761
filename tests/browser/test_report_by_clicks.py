"""What a reader does with the report: points, clicks, types, in a real browser."""

import csv
import io
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

Open = Callable[..., Any]


@pytest.fixture
def page(report: Path, opened: Open) -> Page:
    found: Page = opened(report, viewport={"width": 1200, "height": 900}).page
    return found


def chart(page: Page, place: int) -> Locator:
    """A drawn chart: 0 throughput, 1 phases of the first experiment."""
    figure = page.locator(".experiment figure").nth(place)
    expect(figure.locator("svg.marks")).to_be_visible()
    return figure


def told(page: Page) -> dict[str, str]:
    """The pointer's box, as pairs."""
    box = page.locator("#vg-tooltip-element.visible")
    expect(box).to_be_visible()
    rows = [row.split("\t") for row in box.inner_text().splitlines() if row.strip()]
    return {key.strip().removesuffix(":"): value.strip() for key, value in rows}


def column(page: Page, table: str, heading: str) -> list[str]:
    found = page.locator(f"{table} thead th")
    # What is far out of sight is not laid out, and has no text yet.
    found.first.scroll_into_view_if_needed()
    expect(found.first).to_have_text(re.compile(r"\w"), use_inner_text=True)
    headings = found.all_inner_texts()
    place = [text.strip() for text in headings].index(heading) + 1
    cells = page.locator(f"{table} tbody tr:visible > :nth-child({place})")
    return [text.strip() for text in cells.all_inner_texts()]


def test_a_dot_tells_its_numbers_as_the_table_does(page: Page) -> None:
    figure = chart(page, 0)
    figure.locator(".mark-symbol path[fill='#0072B2']").nth(1).hover()
    cells = page.locator("#experiment-1-scaling tbody tr").nth(1).locator("th, td")
    nodes, _, runs, rates, *_ = cells.all_inner_texts()
    nodes = nodes.split()[0]
    rate, interval = rates.split("\n")
    assert told(page) == {
        "size": f"{nodes} nodes",
        "samples per second": rate,
        "95 % interval": interval,
        "runs": runs,
    }


def test_a_bar_tells_its_phase(page: Page) -> None:
    chart(page, 1).locator(".mark-rect path").first.hover()
    said = told(page)
    assert said["phase"] in {"data", "forward", "backward", "communication", "update", "other"}
    page.get_by_text("Table of phases").first.click()
    assert said["milliseconds per step"] in page.locator("#experiment-1-phases").inner_text()


def test_the_legend_hides_and_shows_phases(page: Page) -> None:
    figure = chart(page, 1)
    bars = figure.locator(".mark-rect path[fill='#D55E00']")
    expect(bars).to_have_count(3)
    button = figure.get_by_role("button", name="communication")
    expect(button).to_have_attribute("aria-pressed", "true")
    button.click()
    expect(bars).to_have_count(0)
    expect(figure.locator(".mark-rect path")).not_to_have_count(0)
    expect(button).to_have_attribute("aria-pressed", "false")
    button.press("Enter")
    expect(bars).to_have_count(3)


def test_the_legend_hides_single_runs_the_ideal_and_the_fit(page: Page) -> None:
    figure = chart(page, 0)
    lines = figure.locator(".mark-line path[stroke-dasharray], .mark-line path[stroke='#555555']")
    expect(lines).to_have_count(2)
    for name in ("single runs", "ideal", "fit: Amdahl"):
        figure.get_by_role("button", name=name).click()
    expect(lines).to_have_count(0)
    expect(figure.locator(".mark-symbol path")).to_have_count(3)


def test_what_is_hidden_before_a_chart_is_drawn_stays_hidden(report: Path, opened: Open) -> None:
    page = opened(report, viewport={"width": 1200, "height": 100}).page
    # Clicked by the page, within one task, so nothing is drawn in between.
    page.evaluate(
        "() => document.querySelectorAll('.experiment figure')[1].querySelector('button').click()"
    )
    figure = chart(page, 1)
    expect(figure.locator(".mark-rect path[fill='#E69F00']")).to_have_count(0)
    expect(figure.locator(".mark-rect path")).not_to_have_count(0)


def test_sizes_of_powers_of_two_are_equally_far_apart(hostile_report: Path, opened: Open) -> None:
    page = opened(hostile_report, viewport={"width": 1200, "height": 900}).page
    for place in (0, 2, 3):
        dots = chart(page, place).locator(".mark-symbol path[fill='#0072B2']")
        lefts = [box["x"] for dot in dots.all() if (box := dot.bounding_box())]
        gaps = [after - before for before, after in pairwise(lefts)]
        assert gaps == pytest.approx([gaps[0]] * 3, rel=0.1)


def saved(page: Page, button: Locator) -> tuple[str, bytes]:
    """The name and content of the file that a button makes."""
    button.scroll_into_view_if_needed()
    with page.expect_download() as waiting:
        button.click()
    return waiting.value.suggested_filename, waiting.value.path().read_bytes()


def test_charts_are_saved_with_a_legend(page: Page) -> None:
    figure = chart(page, 1)
    name, content = saved(page, figure.get_by_role("button", name="PNG"))
    assert (name, content[:4]) == ("phases.png", b"\x89PNG")
    name, content = saved(page, figure.get_by_role("button", name="SVG"))
    assert name == "phases.svg"
    assert b"<svg" in content and b">communication</text>" in content
    assert b">communication</text>" not in figure.locator("svg.marks").inner_html().encode()


def test_a_table_is_saved_as_csv(page: Page) -> None:
    scaling = page.locator("#experiment-1-scaling")
    name, content = saved(page, scaling.locator("+ button", has_text="CSV"))
    assert name == "Scaling-of-digits-mlp.csv"
    header, *rows = csv.reader(io.StringIO(content.decode()))
    assert header[:6] == ["Nodes", "Ranks", "Runs", "Samples/s", "Samples/s: interval", "Speed-up"]
    assert [row[0] for row in rows] == ["1", "2", "4"]
    shown = scaling.locator("tbody tr").nth(1).locator("td").nth(2)
    assert rows[1][3] == shown.locator("data").get_attribute("value")
    assert rows[1][4] == shown.locator("small").inner_text()
    assert len(rows) == 3


def test_no_cell_of_a_saved_table_is_a_formula(hostile_report: Path, opened: Open) -> None:
    page = opened(hostile_report, viewport={"width": 1200, "height": 900}).page
    page.evaluate("() => (document.querySelector('#all-runs td').textContent = '=1+1')")
    table = page.get_by_role("region", name="Table of runs")
    _, content = saved(page, table.locator("+ button", has_text="CSV"))
    assert [*csv.reader(io.StringIO(content.decode()))][1][0] == "'=1+1"


def test_charts_can_be_reached_and_lead_to_their_tables(page: Page) -> None:
    place = chart(page, 0).locator(".chart")
    place.focus()
    expect(place).to_be_focused()
    page.keyboard.press("Tab")
    expect(chart(page, 0).get_by_role("button").first).to_be_focused()
    chart(page, 1).get_by_role("link", name="Table of numbers").click()
    expect(page.locator("#experiment-1-phases")).to_be_visible()


def test_a_table_is_sorted_by_its_headings(page: Page) -> None:
    heading = page.locator("#all-runs thead th", has_text="Samples/s")
    before = column(page, "#all-runs", "Run")
    expect(heading).not_to_have_attribute("aria-sort", re.compile(".*"))
    heading.get_by_role("button").click()
    expect(heading).to_have_attribute("aria-sort", "ascending")
    rates = column(page, "#all-runs", "Samples/s")
    numbers = [float(rate.replace(",", "")) for rate in rates if rate != "–"]
    assert numbers == sorted(numbers)
    assert numbers[0] < 1000 < numbers[-1]
    assert rates[len(numbers) :] == ["–"] * 2
    heading.get_by_role("button").press("Enter")
    expect(heading).to_have_attribute("aria-sort", "descending")
    rates = column(page, "#all-runs", "Samples/s")
    assert rates[-2:] == ["–"] * 2
    assert float(rates[0].replace(",", "")) == numbers[-1]
    page.locator("#all-runs thead th", has_text="State").get_by_role("button").click()
    expect(heading).not_to_have_attribute("aria-sort", re.compile(".*"))
    assert column(page, "#all-runs", "State") == [
        "cancelled",
        *["completed"] * 11,
        "pending",
    ]
    assert sorted(column(page, "#all-runs", "Run")) == sorted(before)


def test_all_of_a_heading_sorts(page: Page) -> None:
    table = page.get_by_role("region", name="Scaling of digits-mlp")
    heading = table.locator("thead th", has_text="Samples/s")
    box = heading.bounding_box()
    assert box
    for place, order in (
        ({"x": 2, "y": 2}, "ascending"),
        ({"x": box["width"] - 2, "y": box["height"] - 3}, "descending"),
    ):
        heading.click(position=place)  # type: ignore[arg-type]
        expect(heading).to_have_attribute("aria-sort", order)
    # Once, wherever one clicks.
    heading.get_by_role("button").click()
    expect(heading).to_have_attribute("aria-sort", "ascending")


def test_failures_are_sorted_with_the_ends_of_their_logs(page: Page) -> None:
    page.locator("#failures").scroll_into_view_if_needed()
    table = page.get_by_role("region", name="Failures")
    before = table.locator("tbody").all_inner_texts()
    assert "rank-3.log" in before[0]
    table.get_by_text("The last lines of rank-3.log").click()
    expect(table.get_by_text("rank-3 of nodes4-ranks2-repeat3")).to_be_visible()
    table.get_by_role("button", name="Time lost").dblclick()
    after = table.locator("tbody").all_inner_texts()
    assert "job.log" in after[0]
    assert "rank-3 of nodes4-ranks2-repeat3" in after[1]


def test_runs_are_filtered_by_experiment_state_and_host(page: Page) -> None:
    box, count = page.get_by_role("searchbox"), page.locator(".filter output")
    rows = page.locator("#all-runs tbody tr:visible")
    expect(count).to_have_text("13 of 13 runs")
    expect(count).to_have_attribute("aria-live", "polite")
    for typed, found in (("RESNET", 2), ("resnet completed", 2), ("pending", 1), ("host3", 4)):
        box.fill(typed)
        expect(count).to_have_text(f"{found} of 13 runs")
        expect(rows).to_have_count(found)
    # Remarks and names of logs are not searched.
    box.fill("job.log")
    expect(count).to_have_text("0 of 13 runs")
    box.fill("")
    expect(rows).to_have_count(13)
