"""A job that was suspended has a step of minutes: the report names it, and the throughput without it."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from reports import reported
from study_files import plan

STEP_S, SAMPLES, STEPS = 0.1, 64, 400


def report_of(results: Path, by_rank: Sequence[Sequence[float]]) -> tuple[str, dict[str, object]]:
    """The text of the report on one run, whose ranks' steps take these seconds, and its summary."""
    run = plan(results, nodes=1, ranks_per_node=len(by_rank), repeat=1)
    run.execute()
    for rank, seconds in enumerate(by_rank):
        run.timed_steps(rank, seconds, seconds, SAMPLES)
    files = reported(results)
    [found] = json.loads(files.json.read_text())["runs"]
    return " ".join(files.html.read_text().split()), found


def steps(*long: tuple[int, float]) -> list[float]:
    """The seconds of steps that vary by a per mille, but for some."""
    seconds = [STEP_S * (1 + 0.001 * (step % 3)) for step in range(STEPS)]
    for step, took in long:
        seconds[step] = took
    return seconds


@pytest.mark.parametrize("ranks", [1, 4])
def test_a_suspended_job_is_remarked(tmp_path: Path, ranks: int) -> None:
    text, run = report_of(tmp_path / "site", [steps((200, 78.0))] * ranks)
    assert (
        "Step 200 of rank 0 took 1 min 18 s, 779 times the median, for example because the job was"
    ) in text
    assert text.count("Without it the throughput would be") == 2, "a finding and a remark"
    rate, found = run["samples_per_s"], run["long_steps"]
    assert isinstance(rate, float) and isinstance(found, dict)
    assert found["samples_per_s"] == pytest.approx(ranks * SAMPLES / STEP_S, rel=0.01)
    # The throughput itself is unchanged.
    assert rate == pytest.approx(ranks * SAMPLES * STEPS / (STEP_S * STEPS + 78), rel=0.01)


def test_one_rank_that_stalled_is_named(tmp_path: Path) -> None:
    text, _ = report_of(tmp_path / "site", [steps(), steps((300, 30.0))])
    assert "Step 300 of rank 1 took 30.0 s" in text


def test_several_are_counted(tmp_path: Path) -> None:
    text, run = report_of(tmp_path / "site", [steps((100, 20.0), (300, 30.0))])
    assert "2 steps of rank 0 took many times the median, step 300 the longest: 30.0 s" in text
    found = run["long_steps"]
    assert isinstance(found, dict)
    assert found["samples_per_s"] == pytest.approx(SAMPLES / STEP_S, rel=0.01)


@pytest.mark.parametrize(
    "long",
    [
        [],
        [(200, 1.0)],  # ten times the median
        [(200, 2.1)],  # a twentieth of the time
        [(step, 3.0) for step in range(10, STEPS, 10)],  # the program's own
    ],
)
def test_what_is_usual_or_short_is_not(tmp_path: Path, long: list[tuple[int, float]]) -> None:
    text, run = report_of(tmp_path / "site", [steps(*long)])
    assert run["long_steps"] is None
    assert "times the median" not in text
