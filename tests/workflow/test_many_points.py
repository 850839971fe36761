"""Snakemake's work for planning is linear in the number of points."""

import pstats
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from workspace import BIN, Workspace

POINTS = (40, 160)
MANY_CALLS = 4000
MOST_GROWTH = 6
"""For four times the points; sorting needs a little more than four times the comparisons."""


def study(points: int) -> dict[str, Any]:
    """Return experiments of four sizes each."""
    experiment = {
        "runtime": "native",
        "launcher": "plain",
        "command": "bash -c 'echo rate 5'",
        "throughput": "rate ([0-9]+)",
        "scale": {"nodes": [1, 2, 3, 4], "repeats": 1},
        "resources": {"time": "2m"},
    }
    return {f"e{number}": experiment for number in range(points // 4)}


def calls(workspace: Workspace) -> dict[str, int]:
    """Return how often a dry run calls each function."""
    profile = workspace.path / "profile"
    python = (BIN / "python", "-m", "cProfile", "-o", profile)
    status, output = workspace.run(*python, BIN / "snakemake", "-n", "--quiet", "rules")
    assert status == 0, output
    found: dict[str, int] = {}
    # `stats` is not among the attributes that typeshed knows of.
    for (file, line, name), (_, times, *_) in vars(pstats.Stats(str(profile)))["stats"].items():
        place = f"{Path(file).name}:{line} {re.sub(' at 0x[0-9a-f]+', '', name)}"
        found[place] = found.get(place, 0) + times
    return found


def calls_of_a_study(workspace: Workspace, points: int) -> list[dict[str, int]]:
    """Return the calls of a dry run of a new study, of a planned one and of one partly measured."""
    workspace.configure(study(points))
    new = calls(workspace)
    status, output = workspace.snakemake("--quiet", "host", "--until", "plan_runs")
    assert status == 0, output
    planned = calls(workspace)
    # Not of what is planned: the runs are planned anew.
    for number in range(points // 8):
        folder = workspace.run_dir(f"e{number}", "nodes1-ranks1-repeat1")
        (folder / "result.json").write_text("{}")
    return [new, planned, calls(workspace)]


def test_no_function_is_called_by_the_square_of_the_points(
    make_workspace: Callable[[str], Workspace],
) -> None:
    found = [calls_of_a_study(make_workspace(f"{points} points"), points) for points in POINTS]
    for few, many in zip(*found, strict=True):
        grown = {
            place: (few.get(place, 0), times)
            for place, times in many.items()
            if times > max(MANY_CALLS, MOST_GROWTH * few.get(place, 0))
        }
        assert grown == {}
