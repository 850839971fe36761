"""Hours, money, energy and carbon of a million samples."""

import json
from pathlib import Path

import pytest
from reports import reported, summarised
from study_files import completed

from argosy.report import Rates, write_report
from argosy.report.statistics.estimates import Estimate
from argosy.report.summary.parts import UsageSummary
from argosy.report.topics import costs
from argosy.report.topics.costs import cost_summary
from argosy.results import collect

RATES = Rates(price_per_node_hour=2.5, currency="EUR", carbon_g_per_kwh=300, pue=1.2)


def used(j_per_sample: float | None) -> UsageSummary:
    energy = None if j_per_sample is None else Estimate(1, j_per_sample)
    return UsageSummary(None, None, None, None, None, None, None, energy, "GPUs")


def test_all_of_it() -> None:
    found = cost_summary(4, [1000.0, 500.0], used(3.6), RATES)
    # Bills add up: of a thousand seconds and two thousand.
    hours = 1500 / 3600
    assert found.hours.mean == pytest.approx(hours)
    assert found.hours.low is not None
    assert found.hours.high is not None
    assert found.hours.low * found.hours.high == pytest.approx(hours**2)
    assert 0 < found.hours.low < hours
    assert found.node_hours.mean == pytest.approx(4 * hours)
    assert found.price and found.energy_kwh and found.carbon_kg
    assert found.price.mean == pytest.approx(2.5 * 4 * hours)
    # A million times 3.6 J is one kWh.
    assert found.energy_kwh.mean == pytest.approx(1.2)
    assert found.carbon_kg.mean == pytest.approx(0.36)


def test_what_is_not_known_is_not_made_up() -> None:
    found = cost_summary(1, [10.0], used(None), RATES)
    assert (found.energy_kwh, found.carbon_kg) == (None, None)
    assert found.hours.low is found.hours.high is None
    found = cost_summary(1, [10.0], used(1.0), Rates())
    assert (found.price, found.carbon_kg) == (None, None)
    assert found.energy_kwh


def test_the_page_says_rates_and_their_source(tmp_path: Path) -> None:
    results = tmp_path / "site"
    completed(results, step_s=0.1).telemetry(0, interval_s=0.25)
    collect(results, results / "tables")
    rates = Rates(2.5, "EUR", 300, 1.2, "the operator's page of 2026")
    written = write_report(results, rates)
    text = " ".join(written.html.read_text().split())
    assert "times the site's PUE of 1.2" in text.replace("&#39;", "'")
    assert "A node-hour costs 2.5 EUR." in text
    assert "Carbon is counted as 300 g of CO₂ per kWh." in text
    assert "Rates: the operator&#39;s page of 2026." in text
    content = json.loads(written.json.read_text())
    assert content["rates"]["pue"] == 1.2
    costs = content["experiments"][0]["points"][0]["costs"]
    assert costs["node_hours"]["mean"] == pytest.approx(1e6 / 320 / 3600)
    # 100 W at 320 samples/s.
    assert costs["energy_kwh"]["mean"] == pytest.approx(100 / 320 * 1e6 / 3.6e6 * 1.2)
    assert costs["energy_of"] == "processors"
    assert ">kWh of processors</th>" in text
    assert ">EUR</th>" in text


def test_without_rates_there_are_hours_alone(tmp_path: Path) -> None:
    results = tmp_path / "site"
    completed(results)
    html = reported(results).html.read_text()
    assert ">Node-hours</th>" in html
    for unknown in ("CO₂", "kWh", "EUR", "Queue wait"):
        assert unknown not in html, unknown


def test_the_line_of_costs_joins_sizes_that_no_other_beats(tmp_path: Path) -> None:
    """Two nodes are no faster than one here, and cost twice as much."""
    for nodes, step_s in ((1, 0.1), (2, 0.2), (4, 0.12)):
        completed(tmp_path / "site", step_s=step_s, nodes=nodes)
    [experiment] = summarised(tmp_path / "site", Rates(price_per_node_hour=2.0)).experiments
    assert [point.nodes for point in costs.best(costs.priced(experiment))] == [4, 1]
