"""Stalls of runs that wait for known shares of their time."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from reports import studied
from stalled_studies import SHARES, STEP_S, stalled

from argosy.report.summary.parts import StallSummary
from argosy.report.topics.stalls import stalls

# Ranks of a run are a per mille apart.
CLOSE = 2e-3


def found(results: Path) -> Sequence[StallSummary]:
    with studied(results) as tables:
        return stalls(tables).get("training", [])


def test_the_parts_of_a_step(tmp_path: Path) -> None:
    stalled(tmp_path)
    (point,) = found(tmp_path)
    assert (point.ranks, point.nodes, point.ranks_per_node) == (4, 2, 2)
    assert point.step_s
    assert point.step_s.mean == pytest.approx(STEP_S["real"], rel=CLOSE)
    means = {name: share.mean for name, share in point.shares.items()}
    assert means == pytest.approx(SHARES, abs=CLOSE)
    assert sum(means.values()) == pytest.approx(1, abs=1e-12)
    for name, share in point.shares.items():
        assert share.low and share.high
        assert share.low < SHARES[name] < share.high, name


def test_without_warm_runs_data_are_one_part(tmp_path: Path) -> None:
    stalled(tmp_path, {name: step_s for name, step_s in STEP_S.items() if name != "warm"})
    (point,) = found(tmp_path)
    assert list(point.shares) == ["compute", "interconnect", "network", "data"]
    assert point.shares["data"].mean == pytest.approx(0.2, abs=CLOSE)


def test_what_it_would_have_to_be_compared_with_is_missing(tmp_path: Path) -> None:
    few = {name: step_s for name, step_s in STEP_S.items() if name not in ("alone", "node")}
    stalled(tmp_path, few)
    (point,) = found(tmp_path)
    assert point.refused == "no run with synthetic data on one rank and one node is completed"


def test_batches_that_differ_cannot_be_compared(tmp_path: Path) -> None:
    stalled(tmp_path, samples=64)
    (point,) = found(tmp_path)
    assert point.refused
    assert "the batch of a rank must be the same at every size" in point.refused


def test_experiments_without_a_study_have_none(tmp_path: Path) -> None:
    stalled(tmp_path, {"real": 0.1})
    assert found(tmp_path) == []
