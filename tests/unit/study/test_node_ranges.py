"""Ranges of nodes: the fewest with which a run continues."""

from typing import Any

import pytest
from small_studies import configured

from argosy.study.runs import expand
from argosy.study.sizes import NodeRange
from argosy_common.errors import ArgosyError


def test_a_range_asks_for_its_larger_number() -> None:
    scale = {"nodes": [1, "2..4"], "repeats": 1}
    study = configured("digits", scale=scale, checkpoints={"restarts": 2})
    assert study.experiments["digits"].scale.nodes == (1, 4)
    assert [(run.run_id, run.least_nodes) for run in expand(study)] == [
        ("nodes1-ranks1-repeat1", None),
        ("nodes4-ranks1-repeat1", 2),
    ]
    assert isinstance(study.experiments["digits"].scale.points[1][0], NodeRange)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"scale": {"nodes": "4..2"}}, "4..2 is no range: write LEAST..ALL, such as 2..4"),
        ({"scale": {"nodes": "0..2"}}, "0..2 is no range"),
        ({"scale": {"nodes": [4, "2..4"]}}, "the same count is listed twice"),
        (
            {"checkpoints": None},
            "2..4 goes on with fewer nodes in a restart: add checkpoints: {restarts: 1}",
        ),
        ({"checkpoints": {"warning": "2m"}}, "or write 4"),
        ({"command": "train --ranks {ranks}"}, "{ranks} would stay as planned"),
        ({"throughput": {"pattern": "([0-9]+)", "rank": 3}}, "there is no rank 3 of 2"),
    ],
)
def test_what_cannot_hold_is_refused(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(ArgosyError) as problem:
        configured(**{"scale": {"nodes": "2..4"}, "checkpoints": {"restarts": 1}, **changes})
    assert why in str(problem.value)
