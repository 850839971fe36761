"""What a container costs, by runs with one and without, in the report."""

import json
from pathlib import Path
from typing import Any

import pytest
from reports import reported
from study_files import STARTED, plan

SLOWER = (1.010, 1.014, 1.006, 1.011, 1.009, 1.013)
"""How many times as long a step takes in the container, by repeat."""


def measured(
    results: Path, slower: tuple[float, ...] = SLOWER, nodes: int = 1, **of_native: Any
) -> None:
    """A run in a container and one without in each repeat, on a machine that changes by the hour."""
    for repeat, ratio in enumerate(slower, 1):
        step_s = 0.1 * (1 + 0.2 * (repeat % 3))
        for place, (name, factor, more) in enumerate(
            (("digits", ratio, {}), ("digits-native", 1.0, {"native": True, **of_native}))
        ):
            run = plan(results, name, nodes, repeat=repeat, **more)
            run.execute(started=STARTED + 200 * repeat + 80 * place)
            run.steps(step_s=factor * step_s)


def written(results: Path) -> tuple[dict[str, Any], str]:
    files = reported(results)
    return json.loads(files.json.read_text()), files.html.read_text()


def test_pairs_tell_it_though_the_machine_changes(tmp_path: Path) -> None:
    measured(tmp_path / "site")
    summary, html = written(tmp_path / "site")
    inside, native = summary["experiments"]
    [found] = inside["container_costs"]
    assert (found["native"], found["nodes"], found["is_paired"]) == ("digits-native", 1, True)
    assert found["cost"]["mean"] == pytest.approx(0.0105, abs=5e-4)
    assert 0.006 < found["cost"]["low"] < 0.0105 < found["cost"]["high"] < 0.015
    assert native["container_costs"] == []
    assert "With 1 node the container costs 1.0 % of a step&#39;s time (0.7 to 1.4 %, n = 6" in html
    rows = (tmp_path / "site/summary.csv").read_text().splitlines()
    assert any(",container_cost,1,6,0.0104" in row for row in rows)


def test_what_is_within_chance_is_said_to_be(tmp_path: Path) -> None:
    measured(tmp_path / "site", slower=(1.01, 0.99, 1.02, 0.98, 1.0, 1.005))
    _, html = written(tmp_path / "site")
    assert "n = 6 pairs), not significantly different from zero." in html


def test_few_runs_have_no_pairs(tmp_path: Path) -> None:
    measured(tmp_path / "site", slower=(1.01, 1.02))
    summary, html = written(tmp_path / "site")
    assert not summary["experiments"][0]["container_costs"][0]["is_paired"]
    assert "n = 2 runs), not significantly different from zero." in html
    measured(tmp_path / "one", slower=(1.01,))
    _, html = written(tmp_path / "one")
    assert "1.0 % of a step&#39;s time; no interval, since runs are too few" in html


@pytest.mark.parametrize(
    "other", [{"digest": "cd"}, {"command": "python3 other.py"}, {"environment": {"A": "1"}}]
)
def test_other_work_is_not_held_against_it(tmp_path: Path, other: dict[str, Any]) -> None:
    measured(tmp_path / "site", **other)
    summary, html = written(tmp_path / "site")
    assert [one["container_costs"] for one in summary["experiments"]] == [[], []]
    assert "the container costs" not in html
