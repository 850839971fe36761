"""Studies with little data have a sentence on it, and no unsupported numbers."""

import html
import json
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reports import reported
from study_files import completed, plan
from ugly_studies import Ugliness, rank_times, write_run

Study = Callable[[Path], None]


def sizes(results: Path, steps_s: dict[int, list[float]]) -> None:
    """Runs by nodes, strong scaling, each with seconds of a step."""
    for nodes, runs in steps_s.items():
        for repeat, step_s in enumerate(runs, 1):
            completed(results, step_s, nodes=nodes, repeat=repeat)


def one_run(results: Path) -> None:
    sizes(results, {1: [0.1]})


def one_size(results: Path) -> None:
    sizes(results, {2: [0.1, 0.103, 0.098]})


def all_equal(results: Path) -> None:
    sizes(results, {1: [0.1] * 3, 2: [0.1] * 3, 4: [0.1] * 3})


def two_groups(results: Path) -> None:
    sizes(results, {1: [0.1, 0.101, 0.1, 0.2, 0.202], 2: [0.05, 0.05, 0.1, 0.101, 0.05]})


def none_completed(results: Path) -> None:
    plan(results).execute(state="failed")


def never_steady(results: Path) -> None:
    kind = Ugliness(warm_up="never steady", scatter=0.02)
    for repeat in (1, 2):
        [own_work_s] = rank_times(kind, 1, 120, 2, np.random.default_rng(repeat))
        write_run(results, kind, own_work_s, nodes=2, repeat=repeat)


def single_runs_of_a_poor_scaling(results: Path) -> None:
    """Measure four sizes with single runs; the efficiency at the largest is 47 %."""
    sizes(results, {1: [0.1], 2: [0.065], 4: [0.04], 8: [0.0266]})


def two_sizes_and_a_poor_line(results: Path) -> None:
    sizes(results, {1: [0.044, 0.0441, 0.0439], 2: [0.045, 0.0449, 0.0451]})


STUDIES: dict[Study, str] = {
    one_run: "one run, so no interval). There is no other size to compare it with.",
    one_size: "There is no other size to compare it with.",
    all_equal: "n = 3, and all agree to the last digit",
    two_groups: "Of 5 runs with 1 node, 2 took 2.00 times as long as the others. 5 to 85 %",
    none_completed: "No throughput was measured",
    never_steady: "it was still warming up when it ended",
    single_runs_of_a_poor_scaling: "n = 1, so no interval",
    two_sizes_and_a_poor_line: "times the throughput of 1 node",
}


def visible(page: str) -> str:
    """The text of a page, without its scripts and styles."""
    text = re.sub(r"<(script|style)\b.*?</\1>|<[^>]*>", " ", page, flags=re.DOTALL)
    return html.unescape(" ".join(text.split()))


def numbers(value: Any) -> Iterator[float]:
    """All numbers of a summary, however deep."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from numbers(one)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield value


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.__name__)
def test_each_has_its_sentence_and_only_numbers_that_are_some(tmp_path: Path, study: Study) -> None:
    results = tmp_path / "site"
    study(results)
    written = reported(results)
    said = visible(written.html.read_text())
    assert STUDIES[study] in said
    for wrong in (" nan", " inf ", "None", "Infinity"):
        assert wrong not in said, wrong
    summary = json.loads(written.json.read_text())
    assert all(math.isfinite(one) for one in numbers(summary))
    assert "More ranks show no loss" not in said
    for experiment in summary["experiments"]:
        assert not any(law["is_best"] for law in experiment["laws"])
        for point in experiment["points"]:
            for name in ("throughput_samples_per_s", "speed_up", "efficiency"):
                estimate = point[name]
                if estimate and (estimate["n"] == 1 or study is all_equal):
                    assert estimate["low"] is estimate["high"] is None


def test_repeats_that_agree_to_the_last_digit_choose_no_law(tmp_path: Path) -> None:
    """Programs that print whole samples per second have such repeats."""
    results = tmp_path / "site"
    all_equal(results)
    written = reported(results)
    assert "No scaling law is chosen: repeats agree to the last digit" in visible(
        written.html.read_text()
    )
    [experiment] = json.loads(written.json.read_text())["experiments"]
    for law in experiment["laws"]:
        assert not law["is_best"]
        for estimate in (law["at_one_samples_per_s"], *law["parameters"].values()):
            assert estimate is None or estimate["low"] is estimate["high"] is None


def test_slow_jobs_are_named_with_their_hosts(tmp_path: Path) -> None:
    results = tmp_path / "site"
    two_groups(results)
    written = reported(results)
    runs = json.loads(written.json.read_text())["runs"]
    slow = [run["run_id"] for run in runs if run["is_slow"]]
    assert slow == [f"nodes{run}" for run in ("1-ranks1-repeat4", "1-ranks1-repeat5")] + [
        f"nodes2-ranks1-repeat{repeat}" for repeat in (3, 4)
    ]
    said = visible(written.html.read_text())
    assert said.count("It is one of the slow jobs of its size") == 4
    assert "is included. It ran on host0 and host1." in said
