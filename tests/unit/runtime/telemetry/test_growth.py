"""Counters since the first look at them."""

import pytest

from argosy.runtime.agent.telemetry.source import CumulativeCounter, Integral


def test_it_begins_with_nothing_and_adds_up_all_counters() -> None:
    growth = CumulativeCounter()
    assert growth.add({"a": 100, "b": 7}) == 0
    assert growth.add({"a": 130, "b": 8}) == 31


def test_a_counter_that_comes_later_counts_from_then_on() -> None:
    growth = CumulativeCounter()
    growth.add({"a": 10})
    assert growth.add({"a": 11, "b": 1_000_000}) == 1
    assert growth.add({"a": 11, "b": 1_000_005}) == 6


def test_a_counter_that_is_missing_once_is_caught_up() -> None:
    growth = CumulativeCounter()
    growth.add({"a": 10, "b": 10})
    assert growth.add({"b": 12}) == 2
    assert growth.add({"a": 20, "b": 12}) == 12


def test_a_counter_that_wraps_around_goes_on() -> None:
    growth = CumulativeCounter({"a": 1000})
    growth.add({"a": 990})
    assert growth.add({"a": 15}) == 25
    assert growth.add({"a": 20}) == 30


def test_a_counter_that_falls_takes_nothing_away() -> None:
    growth = CumulativeCounter()
    growth.add({"a": 500})
    growth.add({"a": 600})
    assert growth.add({"a": 3}) == 100
    assert growth.add({"a": 4}) == 101


def test_a_rate_is_integrated_by_trapeziums_over_uneven_times() -> None:
    integral = Integral()
    assert integral.add(10.0, 100.0) == 0
    assert integral.add(11.0, 300.0) == pytest.approx(200.0)
    assert integral.add(13.0, 300.0) == pytest.approx(800.0)
