"""Allreduces over networks that were found, also where nothing was measured."""

from collections.abc import Sequence

import numpy as np
import pytest
from allreduce_times import hierarchical_s, hierarchical_times
from one_step import Allreduce, allreduce_of
from scipy.stats import qmc

from argosy.report.topics.prediction.communication import AllreduceTime, fit_communication
from argosy.report.topics.prediction.network import Communication


def fitted(times: Sequence[AllreduceTime]) -> Communication:
    found = fit_communication(times)
    assert isinstance(found, Communication)
    return found


def test_a_line_over_bytes() -> None:
    line = Allreduce(2.0, 0.5)
    assert (line.seconds(0), line.seconds(10)) == (2.0, 7.0)
    assert line.slowed(3).seconds(10) == 21.0


def test_sizes_that_were_not_measured() -> None:
    line = allreduce_of(fitted(hierarchical_times()), 256, 8)
    for size in (64.0, 1e6, 1e9):
        assert line.seconds(size) == pytest.approx(hierarchical_s(size, 256, 8), rel=0.03)


def test_draws_are_as_uncertain_as_the_fit() -> None:
    found = fitted(hierarchical_times(noise=0.05))
    chances = qmc.Sobol(4, rng=1).random(4096)
    rows = found.drawn(chances)
    assert found.between_nodes
    for place, interval in (
        (2, found.between_nodes.latency_s),
        (3, found.between_nodes.s_per_byte),
    ):
        drawn = np.quantile(rows[:, place], [0.025, 0.975])
        width = interval.high - interval.low
        assert drawn == pytest.approx([interval.low, interval.high], abs=0.05 * width)
    assert np.corrcoef(rows.T) == pytest.approx(
        found.covariance / np.outer(*[np.sqrt(np.diag(found.covariance))] * 2), abs=0.06
    )
    assert (found.drawn(chances) == rows).all()


def test_networks_that_were_not_measured_are_not_guessed() -> None:
    found = fitted([time for time in hierarchical_times() if time.nodes == 1])
    assert found.knows(1, 64)
    assert not found.knows(2, 4)
    with pytest.raises(ValueError, match="2 x 4 ranks"):
        allreduce_of(found, 2, 4)
