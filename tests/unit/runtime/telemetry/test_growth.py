"""Growth of counters since their first reading, and integrals of rates."""

import pytest

from argosy.runtime.agent.telemetry.source import CumulativeCounter, Integral


@pytest.mark.parametrize(
    ("largest", "readings"),
    [
        ({}, [({"a": 100, "b": 7}, 0), ({"a": 130, "b": 8}, 31)]),
        ({}, [({"a": 10}, 0), ({"a": 11, "b": 1_000_000}, 1), ({"a": 11, "b": 1_000_005}, 6)]),
        ({}, [({"a": 10, "b": 10}, 0), ({"b": 12}, 2), ({"a": 20, "b": 12}, 12)]),
        ({"a": 1000}, [({"a": 990}, 0), ({"a": 15}, 25), ({"a": 20}, 30)]),
        ({}, [({"a": 500}, 0), ({"a": 600}, 100), ({"a": 3}, 100), ({"a": 4}, 101)]),
    ],
    ids=["adds up", "comes later", "is missing once", "wraps around", "falls"],
)
def test_growth_of_counters(
    largest: dict[str, int], readings: list[tuple[dict[str, int], int]]
) -> None:
    growth = CumulativeCounter(largest)
    assert [growth.add(counters) for counters, _ in readings] == [total for _, total in readings]


def test_a_rate_is_integrated_by_trapeziums_over_uneven_times() -> None:
    integral = Integral()
    assert integral.add(10.0, 100.0) == 0
    assert integral.add(11.0, 300.0) == pytest.approx(200.0)
    assert integral.add(13.0, 300.0) == pytest.approx(800.0)
