"""A run with odd numbers is excluded with a reason; other runs are reported."""

from collections.abc import Callable
from pathlib import Path

import pytest
from reports import summarised
from study_files import completed, plan, write_json

from argosy.report.outputs.summary_csv import summary_csv
from argosy.report.page.page import page
from argosy.report.summary.models import Summary, summary_json
from argosy.report.topics import sentences, to_know


def summary_of(results: Path) -> Summary:
    """Add a good run, write all outputs, and return the summary."""
    completed(results, step_s=0.1, repeat=9)
    summary = summarised(results)
    page(summary, results, results)
    summary_csv(summary)
    summary_json(summary)
    [good] = [run for run in summary.runs if run.repeat == 9]
    assert good.samples_per_s == pytest.approx(320)
    return summary


def without_useful_time(results: Path) -> None:
    for nodes in (1, 2):
        run = plan(results, nodes=nodes)
        run.execute()
        run.steps(steps=40, phases={"communication": 0.7, "data": 0.3})


def recorded(*losses: float) -> Callable[[Path], None]:
    def write(results: Path) -> None:
        for repeat, loss in enumerate(losses, start=1):
            completed(results, nodes=2, repeat=repeat, metrics={"loss": loss})

    return write


def printed(*rates: float) -> Callable[[Path], None]:
    def write(results: Path) -> None:
        for nodes, rate in enumerate(rates, start=2):
            run = plan(results, nodes=nodes)
            run.execute()
            run.printed([rate] * 20)

    return write


def timed(step_s: float, samples: int) -> Callable[[Path], None]:
    def write(results: Path) -> None:
        for repeat in (1, 2):
            run = plan(results, nodes=2, repeat=repeat)
            run.execute()
            run.steps(steps=40, step_s=step_s, warm_up_s=step_s, samples=samples)

    return write


@pytest.mark.parametrize(
    ("write", "said"),
    [
        (without_useful_time, ""),
        (recorded(1e200, 2e200), "Loss is "),
        (recorded(1e308, -1e308, 1.7e308), "Loss is "),
        (recorded(1e-320, 2e-320), ""),
        (
            printed(1e-310, 1e-310),
            "it printed 1e-310 samples per second, which is not a throughput",
        ),
        (printed(1e-300, 1e300), "it printed 1e+300 samples per second, which is not a throughput"),
        (timed(9e299, 32), "samples per second, which is not a throughput"),
        (timed(1e-300, 10**15 - 1), "samples per second, which is not a throughput"),
    ],
)
@pytest.mark.filterwarnings("error")
def test_an_odd_run_ends_no_report(
    tmp_path: Path, write: Callable[[Path], None], said: str
) -> None:
    write(tmp_path / "site")
    summary = summary_of(tmp_path / "site")
    text = " ".join(
        one
        for experiment in summary.experiments
        for one in (*to_know(summary, experiment), *sentences(experiment))
    )
    assert said in text


def test_a_run_that_claims_millions_of_ranks_is_a_problem_by_name(tmp_path: Path) -> None:
    results = tmp_path / "site"
    run = plan(results, nodes=4096, ranks_per_node=1024)
    verdict = {"schema_version": 2, "run_id": run.run_id, "attempt": "100.0", "state": "completed"}
    write_json(run.path / "result.json", verdict | {"started": 1.0, "ended": 2.0, "seconds": 1.0})
    [problem] = summary_of(results).problems
    assert problem.run_id == run.run_id
    assert "more than 262,144" in problem.problem


@pytest.mark.parametrize(
    ("accuracies", "mean"), [((97.4, 97.6), 0.975), ((0.974, 0.976), 0.975), ((150.0, 97.0), None)]
)
def test_accuracies_are_shares(
    tmp_path: Path, accuracies: tuple[float, ...], mean: float | None
) -> None:
    for repeat, accuracy in enumerate(accuracies, start=1):
        completed(tmp_path / "site", nodes=2, repeat=repeat, metrics={"test_accuracy": accuracy})
    [experiment] = summary_of(tmp_path / "site").experiments
    found = experiment.points[-1].test_accuracy
    assert (found and found.mean) == (mean and pytest.approx(mean))
