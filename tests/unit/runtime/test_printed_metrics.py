"""Metrics that programs print, as the agents of a job record them."""

import json
import re
from typing import Any

import pytest
from agent_job import RECORD_A_STEP

from argosy.runtime.agent.processes import printed_metrics
from argosy.runtime.agent.processes.printed_metrics import PrintedMetric

LOSS = {"loss": "loss[ =]([-+0-9.a-zE]+)"}


def found(job: Any, rank: int = 0) -> list[dict[str, Any]]:
    name = f"printed-{rank}.jsonl" if rank else "printed.jsonl"
    return [json.loads(line) for line in (job.records / name).open()]


def values(job: Any, name: str, rank: int = 0) -> list[object]:
    return [each.get("value") for each in found(job, rank) if each.get("name") == name]


def counts(job: Any, node: int = 0) -> Any:
    return json.loads((job.records / f"node-{node}.json").read_text())["metrics"]


def test_metrics_of_lines_that_have_a_throughput(job: Any) -> None:
    program = r"""
    import sys
    for step in range(3):
        print(f"\x1b[32mloss\x1b[0m {1 / (step + 1)} accuracy: {90 + step}.5 % at {step + 1} samples/s")
    # A progress bar overwrites itself, and its last state has no newline.
    print("\rloss=5e-1\rloss=2.5e-05", end="")
    """
    metrics = {**LOSS, "val/accuracy@1": "accuracy: ([0-9.]+)"}
    job = job(program, ranks_per_node=2, throughput="([0-9]+) samples/s", metrics=metrics).start()
    assert job.wait() == [0, 0], job.outputs()
    assert values(job, "loss") == [1.0, 0.5, 1 / 3, 0.5, 2.5e-05]
    assert values(job, "val/accuracy@1") == [90.5, 91.5, 92.5]
    assert sum(each["kind"] == "printed" for each in found(job)) == 3
    assert all(each["at"] > 0 and each["clock"] > 1e9 for each in found(job) if "value" in each)
    assert counts(job)["loss"] == {"lines": 5, "matches": 5, "values": 5}
    assert not list(job.records.glob("printed-*.jsonl"))
    assert "metrics" not in json.loads((job.records / "node-1.json").read_text())


def test_a_run_that_records_steps_has_metrics_too(job: Any) -> None:
    """Unreadable numbers are counted; NaN counts as a value, as with argosy_steps."""
    program = (
        RECORD_A_STEP + "print('loss nan\\nloss 1,234\\nloss x\\nloss -2\\n' + 'loss 1' * 1000)"
    )
    job = job(program, nodes=1, metrics={"loss": r"loss (\S+)", "none": "none (.)"}).start()
    assert job.wait() == [0], job.outputs()
    assert values(job, "loss") == ["nan", None, None, -2.0]
    kinds = [each["kind"] for each in found(job)]
    assert kinds == ["metric", "refused", "refused", "metric", "unsearched"]
    assert counts(job) == {
        "loss": {"lines": 5, "matches": 4, "values": 2},
        "none": {"lines": 5, "matches": 0, "values": 0},
    }


def test_metrics_of_all_ranks_that_are_searched(job: Any) -> None:
    program = "import os; r = os.environ['R']; print(f'{r} loss {r}.5 at 10 img/s')"
    asked = {"pattern": "([0-9.]+) img/s", "of": "rank", "rank": "all"}
    job = job(program, throughput=asked, metrics=LOSS, rank_environment={"R": "{rank}"}).start()
    assert job.wait() == [0, 0], job.outputs()
    assert [values(job, "loss", rank) for rank in (0, 1)] == [[0.5], [1.5]]
    assert counts(job, 1)["loss"]["values"] == 1


def test_a_metric_alone_is_no_measurement(job: Any) -> None:
    job = job("print('loss 1')", nodes=1, metrics=LOSS).start()
    assert job.wait() == [1]
    assert "recorded no steps" in job.failures()[0]


@pytest.mark.parametrize("printed", [1, 5, 6, 8])
def test_the_last_of_many_values_is_written_once(
    printed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(printed_metrics, "MOST_VALUES", 5)
    metric = PrintedMetric("loss", re.compile("loss ([0-9]+)"))
    lines = [line for n in range(printed) for line in metric.search([b"loss %d\n" % n, b"other\n"])]
    told = [json.loads(line)["value"] for line in [*lines, *metric.last()]]
    assert told == [*range(min(printed, 5)), *([printed - 1] if printed > 5 else [])]


def test_numbers_that_cannot_be_read_are_listed_up_to_a_bound() -> None:
    metric = PrintedMetric("loss", re.compile("loss (x)"))
    records = [*metric.search([b"loss x\n"] * 1200)]
    assert (len(records), metric.matches, metric.values) == (1000, 1200, 0)
