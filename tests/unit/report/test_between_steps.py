"""Time between steps is a share of the steady time, and needs complete records of steps."""

import json
from pathlib import Path

import pytest
import step_files
from reports import reported, studied
from step_files import all_steps, as_record, rows, write_rows
from study_files import STARTED, RunFiles, plan

from argosy.report.topics.costs import between_steps

STEP_S, STEPS, EVERY = 0.1, 60, 10


def validating(
    results: Path, pause_s: float, repeat: int = 1, offset_s: float = 0.0, set_s: float = 0.0
) -> RunFiles:
    """Two ranks of 60 even steps that pause after every tenth; rank 1's clock is `offset_s` ahead.

    All clocks were set forward by `set_s` after the job's start.
    """
    run = plan(results, nodes=2, ranks_per_node=1, repeat=repeat)
    run.execute()
    run.steps(step_s=STEP_S, warm_up_s=STEP_S, steps=STEPS)
    for rank in range(run.ranks):
        path = run.steps_file("100.0", rank)
        header = step_files.header(rank, STARTED + 2 + set_s + rank * offset_s, 1000.0 + rank)
        paused = (
            as_record(step) | {"start": step.start + step.step // EVERY * pause_s}
            for step in all_steps(path)
        )
        write_rows(path, [header, *map(step_files.row, paused)])
    return run


def shares(results: Path) -> dict[str, float]:
    with studied(results) as tables:
        return {run_id: one.between for (_, run_id), one in between_steps(tables).items()}


@pytest.mark.parametrize(
    ("offset_s", "set_s"),
    [(0.0, 0.0), (30.0, 0.0), (-3600.0, 0.0), (0.0, -3600.0), (0.0, -5.0), (0.0, 86_400.0)],
)
def test_pauses_are_told_whatever_the_clocks(tmp_path: Path, offset_s: float, set_s: float) -> None:
    run = validating(tmp_path, 0.5, offset_s=offset_s, set_s=set_s)
    truth = 5 * 0.5 / (5 * 0.5 + STEPS * STEP_S)
    assert shares(tmp_path) == {run.run_id: pytest.approx(truth, abs=0.002)}


def test_steps_without_a_pause_leave_nothing(tmp_path: Path) -> None:
    run = validating(tmp_path, 0.0)
    assert shares(tmp_path) == {run.run_id: pytest.approx(0, abs=1e-5)}


def test_a_step_that_is_not_recorded_is_no_pause(tmp_path: Path) -> None:
    run = validating(tmp_path, 0.0)
    for rank, expected in enumerate([{run.run_id: 0.0}, {}]):
        path = run.steps_file("100.0", rank)
        parts = rows(path)
        write_rows(path, parts[:20] + parts[30:])
        # The rank with all its steps is the slowest, as long as there is one.
        assert shares(tmp_path) == expected


def test_the_report_says_it_where_it_is_much(tmp_path: Path) -> None:
    validating(tmp_path, 0.5, repeat=1)
    validating(tmp_path, 0.01, repeat=2)
    reported(tmp_path)
    page = " ".join((tmp_path / "report.html").read_text().split())
    said = "Time between steps (validation, checkpoints) is 15 % of the steady time"
    assert f"{said} with 2 nodes." in page
    assert page.count("29 % of its steady time is between steps") == 1
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert [round(run["between_steps"], 2) for run in summary["runs"]] == [0.29, 0.01]
    [point] = summary["experiments"][0]["points"]
    assert (point["between_steps"]["n"], round(point["between_steps"]["mean"], 2)) == (2, 0.15)
    # 60 s of a job, of which 0.1 s a step and half a second every ten steps are steady.
    costs = point["costs"]
    steady_s = [STEPS * STEP_S + 5 * pause for pause in (0.5, 0.01)]
    assert costs["around_s"]["mean"] == pytest.approx(60 - sum(steady_s) / 2, abs=0.1)
    rate, nodes = point["throughput_samples_per_s"]["mean"], 2
    whole = [1e6 / rate * steady / (STEPS * STEP_S) + 60 - steady for steady in steady_s]
    charged = nodes * sum(whole) / 2 / 3600
    assert costs["charged_node_hours"]["mean"] == pytest.approx(charged, rel=0.01)
    assert costs["node_hours"]["mean"] == pytest.approx(nodes * 1e6 / rate / 3600, rel=0.01)
    assert ",between_steps,1,2,0.15" in (tmp_path / "summary.csv").read_text()
