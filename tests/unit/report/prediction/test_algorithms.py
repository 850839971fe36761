"""Traffic of algorithms, compared with a count of their rounds."""

import pytest
from allreduce_times import halving_s, hierarchical_s, ring_s

from argosy.report.topics.prediction.network import ALGORITHMS


def seconds(name: str, nodes: int, ranks: int) -> float:
    """Return the time of 10 bytes: latencies of 7 within and 100 between nodes, 2 and 30 per byte."""
    return float(ALGORITHMS[name](nodes, ranks) @ [7, 20, 100, 300])


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_single_rank_sends_nothing(name: str) -> None:
    assert not ALGORITHMS[name](1, 1).any()


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("participants", [2, 3, 4, 7])
def test_one_network_only_is_used_where_there_is_one(name: str, participants: int) -> None:
    inside, outside = ALGORITHMS[name](1, participants), ALGORITHMS[name](participants, 1)
    assert not inside[2:].any() and not outside[:2].any()
    assert inside[:2].tolist() == outside[2:].tolist()


@pytest.mark.parametrize("nodes", [2, 3, 8, 13])
def test_rings(nodes: int) -> None:
    assert seconds("ring", nodes, 4) == pytest.approx(ring_s(10, 4 * nodes, (100, 30)))
    assert seconds("ring", 1, nodes) == pytest.approx(ring_s(10, nodes, (7, 2)))
    expected = hierarchical_s(10, nodes, 4, within=(7, 2), between=(100, 30))
    assert seconds("hierarchical", nodes, 4) == pytest.approx(expected)


@pytest.mark.parametrize("nodes", [2, 4, 16, 4096])
def test_powers_of_two(nodes: int) -> None:
    assert seconds("halving", nodes, 1) == pytest.approx(halving_s(10, nodes, (100, 30)))


def test_ranks_beyond_a_power_of_two_send_all_to_a_neighbour_and_back() -> None:
    assert seconds("halving", 5, 1) == pytest.approx(seconds("halving", 4, 1) + 2 * (100 + 300))
