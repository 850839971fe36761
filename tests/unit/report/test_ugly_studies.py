"""A report tells of ugly runs what was found in them, and gives no number that they do not have."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from ugly_studies import SAMPLES, Ugliness, rank_times, step_times, true_log_rate, write_run

from argosy.report.outputs.terminal import print_summary
from argosy.report.page.page import page
from argosy.report.runs.warmup import warm_up
from argosy.report.summary.models import RunSummary, Summary, summary_json
from argosy.report.summary.summarise import summarise
from argosy.report.topics.runs import left_out, remarks
from argosy.results import collect

RANKS, STEPS = 2, 120


def summary_of(results: Path, *kinds: Ugliness) -> Summary:
    """A study with one run of each kind, all of one size."""
    for repeat, kind in enumerate(kinds, 1):
        chance = np.random.default_rng([3, repeat])
        [own_work_s] = rank_times(kind, 1, STEPS, RANKS, chance)
        write_run(results, kind, own_work_s, nodes=2, repeat=repeat)
    tables = results / "tables"
    collect(results, tables)
    return summarise(tables)


def by_repeat(summary: Summary) -> dict[int, RunSummary]:
    return {run.repeat: run for run in summary.runs}


def test_runs_that_never_become_steady_do_not_count(tmp_path: Path) -> None:
    never = Ugliness(warm_up="never steady", scatter=0.02)
    summary = summary_of(tmp_path / "site", Ugliness(), never, Ugliness(job_scatter=0.0))
    steady, refused, other = by_repeat(summary).values()
    assert refused.samples_per_s is None
    assert refused.left_out == refused.warm_up
    assert "it was still warming up when it ended" in str(refused.left_out)
    [point] = summary.experiments[0].points
    assert point.throughput_samples_per_s is not None
    assert point.throughput_samples_per_s.n == 2
    assert point.runs_samples_per_s == [steady.samples_per_s, other.samples_per_s]


def test_runs_in_no_number_are_told_beside_the_numbers(tmp_path: Path) -> None:
    never = Ugliness(warm_up="never steady", scatter=0.02)
    missing = Ugliness(missing_ranks=1)
    folder = tmp_path / "site"
    summary = summary_of(folder, Ugliness(), never, Ugliness(job_scatter=0.0), missing, missing)
    [experiment] = summary.experiments
    unsteady, silent = left_out(summary, experiment)
    said = (
        "Excluded, though completed: nodes2-ranks1-repeat2: it was still warming up when it ended"
    )
    assert unsteady.startswith(said) and unsteady.endswith(" steps.")
    several = "nodes2-ranks1-repeat4 and nodes2-ranks1-repeat5"
    assert silent == (f"Excluded, though completed: {several}: no steps of 1 of its 2 ranks.")
    out = io.StringIO()
    print_summary(json.loads(summary_json(summary)), Console(file=out, width=400))
    shown = out.getvalue(), page(summary, folder, folder)
    assert all(sentence in text for sentence in (unsteady, silent) for text in shown)


def test_of_runs_none_of_which_becomes_steady_there_is_no_number(tmp_path: Path) -> None:
    never = Ugliness(warm_up="never steady", scatter=0.02)
    summary = summary_of(tmp_path / "site", never, never)
    [point] = summary.experiments[0].points
    assert point.throughput_samples_per_s is None
    assert point.step_s is None
    assert all(run.left_out for run in summary.runs)


def test_a_fitted_steady_state_is_told_and_all_numbers_are_of_it(tmp_path: Path) -> None:
    slow = Ugliness(warm_up="exponential 15 %", scatter=0.02, job_scatter=0.0)
    summary = summary_of(tmp_path / "site", slow)
    [run] = summary.runs
    assert run.warm_up_excess is not None
    assert run.warm_up_excess > 1.02
    truth = RANKS * np.exp(true_log_rate(slow, STEPS, np.random.default_rng(1)))
    # The slowest of two ranks decides, so a step takes a little longer than each rank's work.
    assert run.samples_per_s == pytest.approx(truth, rel=0.03)
    [point] = summary.experiments[0].points
    assert point.step_s is not None
    assert RANKS * SAMPLES / point.step_s == pytest.approx(run.samples_per_s, rel=1e-6)
    assert any("their limit is fitted" in remark for remark in remarks(run))


def test_missing_ranks_and_clocks_that_differ_are_told(tmp_path: Path) -> None:
    summary = summary_of(
        tmp_path / "site", Ugliness(missing_ranks=1), Ugliness(clock_offset_s=40.0)
    )
    without, offset = by_repeat(summary).values()
    assert without.left_out == "no steps of 1 of its 2 ranks"
    assert offset.samples_per_s is not None
    assert "Its nodes' clocks differ by 40.0 s." in remarks(offset)


def test_the_summary_says_what_the_rules_find(tmp_path: Path) -> None:
    kinds = [
        Ugliness(warm_up="step at 10 %"),
        Ugliness(burst=True),
        Ugliness(heavy_tails=True, autocorrelation=0.5),
        Ugliness(slow_saves=True, drift=0.1),
        Ugliness(slow_jobs=1.0, warm_up="ramp to 10 %"),
    ]
    summary = summary_of(tmp_path / "site", *kinds)
    for repeat, kind in enumerate(kinds, 1):
        [own_work_s] = rank_times(kind, 1, STEPS, RANKS, np.random.default_rng([3, repeat]))
        seconds = own_work_s.max(axis=1)
        found = warm_up(seconds)
        run = by_repeat(summary)[repeat]
        assert (run.warm_up_steps, run.is_steady) == (found.steps, found.is_steady)
        rate = RANKS * SAMPLES * found.excess / seconds[found.steps :].mean()
        assert run.samples_per_s == pytest.approx(rate, rel=1e-6)


def test_studies_are_as_ugly_as_they_say() -> None:
    chance = np.random.default_rng(4)
    alike = step_times(Ugliness(autocorrelation=0.9, job_scatter=0.0), 200, 200, chance)
    logs = np.log(alike) - np.log(alike).mean()
    assert np.mean(logs[:, 1:] * logs[:, :-1]) / np.mean(logs**2) == pytest.approx(0.9, abs=0.03)
    jobs = step_times(Ugliness(scatter=0.001, job_scatter=0.05), 2000, 10, chance)
    assert np.log(jobs.mean(axis=1)).std() == pytest.approx(0.05, rel=0.1)
    slow = rank_times(Ugliness(straggler=1.5), 10, 200, 4, chance).mean(axis=(0, 1))
    assert slow[-1] / slow[:-1].mean() == pytest.approx(1.5, rel=0.02)
    turns = rank_times(Ugliness(straggler=1.5, takes_turns=True), 10, 200, 4, chance)
    assert np.ptp(turns.mean(axis=(0, 1))) < 0.02 * turns.mean()
