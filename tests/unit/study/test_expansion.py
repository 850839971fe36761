"""An experiment expands to its sizes: first ranks fill the fewest nodes, then nodes are added."""

from typing import Any

import pytest
from small_studies import runs_of as runs_of_one

from argosy.study.runs import Run
from argosy_common.errors import ArgosyError


def runs_of(scale: dict[str, Any], **more: Any) -> list[Run]:
    return runs_of_one("train", more, scale={"repeats": 1, **scale})


def sizes(runs: list[Run], experiment: str = "train") -> list[tuple[int, int]]:
    return [(run.nodes, run.ranks_per_node) for run in runs if run.experiment == experiment]


@pytest.mark.parametrize(
    ("nodes", "ranks_per_node", "expected"),
    [
        ([1, 2, 4], [1, 2, 4], [(1, 1), (1, 2), (1, 4), (2, 4), (4, 4)]),
        ([4, 2], [2, 1], [(2, 1), (2, 2), (4, 2)]),
        (1, [3, 1], [(1, 1), (1, 3)]),
    ],
)
def test_ranks_fill_the_fewest_nodes_and_then_there_are_more(
    nodes: Any, ranks_per_node: Any, expected: list[tuple[int, int]]
) -> None:
    assert sizes(runs_of({"nodes": nodes, "ranks_per_node": ranks_per_node})) == expected


def test_more_ranks_per_node_change_no_run_of_one_number() -> None:
    one = runs_of({"nodes": [1, 2], "ranks_per_node": 2})
    assert '"nodes":1,"ranks_per_node":2,"repeat":1' in one[0].model_dump_json()
    assert one == runs_of({"nodes": [1, 2], "ranks_per_node": [2]})
    assert one == runs_of({"nodes": [1, 2], "ranks_per_node": [1, 2]})[1:]


def test_ranks_per_node_are_named_once() -> None:
    with pytest.raises(ArgosyError, match=r"scale\.ranks_per_node: the same count is listed twice"):
        runs_of({"nodes": 1, "ranks_per_node": [2, 2]})


def test_a_stall_study_has_each_size_that_it_compares() -> None:
    stalls = {"stalls": {"train": {"synthetic": "--synthetic"}}}
    runs = runs_of({"nodes": [1, 2], "ranks_per_node": [1, 2]}, studies=stalls)
    assert sizes(runs, "train-synthetic") == sizes(runs) == [(1, 1), (1, 2), (2, 2)]
    assert sizes(runs, "train-alone") == []


def test_a_stall_study_of_partial_nodes_needs_one_node() -> None:
    stalls = {"stalls": {"train": {"synthetic": "--synthetic"}}}
    with pytest.raises(ArgosyError, match=r"it needs 1 in scale\.nodes"):
        runs_of({"nodes": 2, "ranks_per_node": [2, 4]}, studies=stalls)


def test_time_limits_follow_the_nodes() -> None:
    limits = {"time": "2h", "time_from_nodes": {"4": "40m", 2: "1h"}}
    scale = {"nodes": [1, 2, 3, 4, 8], "repeats": 1}
    runs = runs_of_one(scale=scale, resources=limits)
    assert [run.resources.time // 60 for run in runs] == [120, 60, 60, 40, 40]
    plain = runs_of_one(scale=scale, resources={"time": "2h"})
    assert runs[0] == plain[0]
    assert runs[0].model_dump_json() == plain[0].model_dump_json()
    limits["time_from_nodes"] = {4: "40"}
    with pytest.raises(ArgosyError, match=r"resources\.time_from_nodes\.4: "):
        runs_of_one(scale=scale, resources=limits)
