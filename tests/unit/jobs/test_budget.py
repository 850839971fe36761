"""A budget limits the node-hours that runs without a result may take."""

from pathlib import Path
from typing import Any

import pytest
from small_studies import project_with, runs_of

from argosy.jobs.budget import check_budget
from argosy.jobs.description import Plan
from argosy.jobs.planning import Target, plan_runs
from argosy_common.errors import ArgosyError


def plans(tmp_path: Path, **resources: Any) -> list[Plan]:
    scale = {"nodes": [1, 2], "repeats": 3}
    runs = runs_of(scale=scale, resources={"time": "20m", **resources})
    return plan_runs(project_with(tmp_path, "testbed"), Target("testbed"), runs, {})


def test_jobs_of_their_own_take_their_nodes_for_their_limits(tmp_path: Path) -> None:
    found = plans(tmp_path)
    said = check_budget(3, found)
    assert said == "Budget: 6 runs may take 3.00 node-hours (nodes × time limit), of 3."
    with pytest.raises(ArgosyError, match=r"may take 3\.00 node-hours") as refused:
        check_budget(2.5, found)
    assert "more than the 2.5 of the budget" in str(refused.value)
    assert "lower resources.time, scale.repeats" in refused.value.hint


def test_a_shared_job_takes_its_largest_nodes_for_all_its_runs(tmp_path: Path) -> None:
    # Of each repeat, 2 nodes for twice 20 minutes and a minute besides.
    assert "6 runs may take 4.20 node-hours" in check_budget(
        5, plans(tmp_path, same_allocation=True)
    )
