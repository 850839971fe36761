"""The report says which runs become slower, that sizes differ in it, and what is above ideal."""

from pathlib import Path

import numpy as np
from reports import summarised
from study_files import plan

from argosy.report.summary.models import Summary
from argosy.report.topics import runs, sentences, to_know

STEPS = 150


def summary_of(results: Path, throttled: float) -> Summary:
    """Three runs on 1 node, whose steps take so many times as long from step 60 on, and three on 2."""
    chance = np.random.default_rng(8)
    for nodes in (1, 2):
        for repeat in (1, 2, 3):
            run = plan(results, nodes=nodes, repeat=repeat)
            run.execute()
            seconds = 0.1 * np.exp(0.01 * chance.standard_normal(STEPS))
            seconds[60:] *= throttled if nodes == 1 else 1.0
            for rank in range(run.ranks):
                run.timed_steps(rank, 0.9 * seconds, seconds, samples=32)
    return summarised(results)


def test_throttled_runs_are_said_and_that_sizes_differ_in_it(tmp_path: Path) -> None:
    summary = summary_of(tmp_path / "site", throttled=1.25)
    [experiment] = summary.experiments
    slow = [run for run in summary.runs if run.slower_from is not None]
    assert [run.nodes for run in slow] == [1, 1, 1]
    assert all(run.is_steady is False for run in slow)
    said = runs.remarks(slow[0])[0]
    assert "From step 60 to the end, its steps take 1.2" in said
    text = " ".join(to_know(summary, experiment))
    assert "Steps become slower during runs (median: 1.2" in text
    assert "times with 1 node, 1.00 times with 2 nodes" in text
    said = " ".join(sentences(experiment))
    assert "no interval: runs slow down over time" in said
    assert "The efficiency is above ideal. Possible causes" in said
    assert experiment.points[1].efficiency is not None
    assert experiment.points[1].efficiency.low is None


def test_steady_runs_are_not(tmp_path: Path) -> None:
    summary = summary_of(tmp_path / "site", throttled=1.0)
    [experiment] = summary.experiments
    assert not [run for run in summary.runs if run.slower_from is not None]
    text = " ".join([*to_know(summary, experiment), *sentences(experiment)])
    assert "slower during" not in text
    assert "above ideal" not in text
