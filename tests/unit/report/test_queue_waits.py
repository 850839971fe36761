"""How long jobs waited in the queue: in the tables, the report, and beside another site."""

from pathlib import Path

import pytest
from reports import reported_summary
from study_files import RunFiles, plan

from argosy.report import write_comparison
from argosy.report.outputs.comparison import compare, findings
from argosy.report.summary.models import Summary
from argosy.report.topics import sentences


def run(results: Path, nodes: int, repeat: int, waited_s: float | None, **more: object) -> RunFiles:
    files = plan(results, "digits", nodes, 1, repeat, queue="main", **more)  # type: ignore[arg-type]
    files.execute()
    files.steps(step_s=0.1 * (1 + 0.001 * repeat), steps=30)
    if waited_s is not None:
        files.submitted(waited_s)
    return files


def study(results: Path, *waits: float) -> Summary:
    for repeat, waited_s in enumerate(waits, start=1):
        run(results, 1, repeat, waited_s)
    return reported_summary(results)


def test_the_median_and_how_far_waits_go(tmp_path: Path) -> None:
    found = study(tmp_path / "a", 30, 7200, 600)
    [point] = found.experiments[0].points
    assert point.queue
    assert (point.queue.jobs, point.queue.queues) == (3, ("main",))
    assert (point.queue.waited_s, point.queue.shortest_s, point.queue.longest_s) == (600, 30, 7200)
    assert point.queue.to_result_s == pytest.approx(660)
    assert [one.waited_s for one in found.runs] == [30, 7200, 600]
    [said] = [each for each in sentences(found.experiments[0]) if "queue" in each]
    assert said == (
        "Jobs of 1 node waited 10 min 00 s in the queue main in the median (30.0 s to 2 h 00 min, n = 3); "
        "queue times vary from day to day."
    )


def test_a_short_wait_is_not_worth_a_word(tmp_path: Path) -> None:
    found = study(tmp_path / "a", 3, 5)
    assert found.experiments[0].points[0].queue
    assert not [each for each in sentences(found.experiments[0]) if "queue" in each]


def test_what_is_no_wait_for_a_place_is_not_told(tmp_path: Path) -> None:
    results = tmp_path / "a"
    run(results, 1, 1, None)
    run(results, 1, 2, None).submitted(50, allocation="digits/allocation-repeat2")
    requeued = plan(results, "digits", 1, 1, 3, queue="main")
    requeued.execute("100.1")
    requeued.steps("100.1", step_s=0.1, steps=30)
    requeued.submitted(50)
    requeued.claim("100.1")
    without_queue = plan(results, "digits", 1, 1, 4)
    without_queue.execute()
    without_queue.submitted(50)
    found = reported_summary(results)
    assert [one.waited_s for one in found.runs] == [None] * 4
    assert found.experiments[0].points[0].queue is None


def test_a_clock_that_is_behind_makes_no_negative_wait(tmp_path: Path) -> None:
    found = study(tmp_path / "a", -3)
    assert found.runs[0].waited_s == 0


def test_sites_are_told_apart_by_their_queues_too(tmp_path: Path) -> None:
    here, there = study(tmp_path / "a", 60, 60, 90), study(tmp_path / "b", 3600, 7200, 3600)
    comparison = compare({"a": here, "b": there})
    [_, of_queues, *_] = findings(comparison.experiments[0], "a")
    assert of_queues == (
        "From submission to end, a run on 1 node took 1 h 01 min at b: it waited 1 h 00 min in the "
        "queue main in the median (1 h 00 min to 2 h 00 min, n = 3). At a it took 2 min 00 s, and "
        "waited 1 min 00 s in the queue main in the median (1 min 00 s to 1 min 30 s, n = 3). Queue "
        "times vary from day to day."
    )
    write_comparison({"a": here, "b": there}, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "Time to result" in page
    assert "1 h 01 min" in page


def test_throughput_of_a_node_a_core_and_a_gpu(tmp_path: Path) -> None:
    resources = {"cpus_per_rank": 4, "gpus_per_rank": 2}
    for repeat in (1, 2):
        run(tmp_path / "a", 2, repeat, None, resources=resources)
    found = reported_summary(tmp_path / "a")
    [each] = compare({"a": found, "b": found}).experiments[0].points[:1]
    rate = each.point.throughput_samples_per_s
    assert rate
    assert each.per("nodes") == pytest.approx(rate.mean / 2)
    assert each.per("cpus_per_rank") == pytest.approx(rate.mean / 8)
    assert each.per("gpus_per_rank") == pytest.approx(rate.mean / 4)
