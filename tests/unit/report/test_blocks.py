"""Repeats are blocks if their runs started close together."""

import pytest

from argosy.report.runs.scaling import are_blocks, days


@pytest.mark.parametrize(
    "starts",
    [
        {1: [0.0, 5.0], 2: [10.0, 12.0]},
        # Neighbours overlap, since jobs wait.
        {1: [0.0, 11.0], 2: [10.0, 21.0], 3: [20.0, 22.0]},
        # A whole repeat was measured again later.
        {1: [90.0, 95.0], 2: [10.0, 12.0], 3: [20.0, 22.0]},
    ],
)
def test_blocks(starts: dict[int, list[float | None]]) -> None:
    assert are_blocks(starts)


@pytest.mark.parametrize(
    "starts",
    [
        {},
        {1: [0.0, 5.0]},
        {1: [0.0, 11.0], 2: [10.0, 12.0]},
        {1: [0.0, 25.0], 2: [10.0, 12.0], 3: [20.0, 22.0]},
        {1: [0.0, None], 2: [10.0, 12.0]},
        {1: [], 2: [10.0, 12.0]},
        # One size after another, each with all its repeats.
        {repeat: [repeat, 100.0 + repeat] for repeat in range(1, 7)},
        # All at once: blocks cannot be distinguished.
        {1: [0.0, 0.0], 2: [0.0, 0.0], 3: [0.0, 0.0]},
    ],
)
def test_no_blocks(starts: dict[int, list[float | None]]) -> None:
    assert not are_blocks(starts)


def test_a_night_ends_a_day() -> None:
    hour = 3600.0
    assert days([10 * hour, 0, None, 3 * hour, 40 * hour, 5 * hour]) == [1, 1, 0, 1, 2, 1]
    assert days([]) == []
