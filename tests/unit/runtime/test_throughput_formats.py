"""Formats of well-known programs on their real output, and the meaning of numbers."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from argosy.runtime.agent.processes.measurements import PrintedThroughput
from argosy.runtime.agent.processes.output import LineSplitter
from argosy.runtime.contract.throughput import throughput_of
from argosy.study.throughput import FORMATS, Throughput

# Of Lightning 2.6.6, transformers 5.24.0, Keras 3 and tqdm 4.70.1 as printed into a pipe; deepspeed,
# megatron, mllog and horovod-synthetic by the format strings of their sources.
LINES = Path(__file__).with_name("printed_lines")
NODES, RANKS = 2, 4


def searched(
    key: str | Mapping[str, Any], data: bytes, folder: Path, rank: int = 0
) -> tuple[list[float], str]:
    """Return the rates that the agent records of printed lines, and the cause of a failure."""
    asked = throughput_of(Throughput.model_validate(key).model_dump())
    assert asked
    settings = SimpleNamespace(
        throughput=re.compile(asked.pattern),
        printed=asked,
        metrics={},
        record=lambda name: str(folder / name),
        logs=str(folder),
        attempt="1.0",
        resume="",
        node=0,
        nodes=NODES,
        ranks=RANKS,
    )
    printed = PrintedThroughput(cast(Any, settings), rank, print)
    splitter = LineSplitter()
    printed.search([*splitter.feed(data.replace(b"\r", b"\n")), *splitter.rest()])
    name = folder / (f"printed-{rank}.jsonl" if rank else "printed.jsonl")
    records = [json.loads(line) for line in name.open()] if name.exists() else []
    failure = printed.failure()
    return [
        one["samples_per_second"] for one in records if one["kind"] == "printed"
    ], failure.cause if failure else ""


@pytest.mark.parametrize(
    ("lines", "first", "last", "unit"),
    [
        ("deepspeed", 220.69530887096045, 221.5, "samples"),
        ("horovod-synthetic", 16.1 * RANKS, 16.3 * RANKS, "images"),
        ("huggingface", 387.7, 387.665, "samples"),
        ("keras", RANKS / 0.080, RANKS / 0.111, "steps"),
        ("lightning", 12.65 * RANKS, 30.67 * RANKS, "steps"),
        ("lightning-rich", 23.53 * RANKS, 23.53 * RANKS, "steps"),
        ("megatron", 16 / 1.1476, 32 / 0.8, "samples"),
        ("mllog", 2531.25, 2530.75, "samples"),
    ],
)
def test_formats(lines: str, first: float, last: float, unit: str, tmp_path: Path) -> None:
    name = lines if lines in FORMATS else "lightning"
    rates, failure = searched(name, (LINES / f"{lines}.txt").read_bytes(), tmp_path)
    assert not failure
    assert [rates[0], rates[-1]] == pytest.approx([first, last])
    asked = throughput_of(Throughput.model_validate(name).model_dump())
    assert asked and asked.unit == unit


def test_bars_change_from_rates_to_times(tmp_path: Path) -> None:
    """tqdm shows `s/it` for steps over a second; the bars here have steps of different durations."""
    rates, failure = searched("tqdm", (LINES / "tqdm.txt").read_bytes(), tmp_path)
    assert {round(rate / RANKS, 1) for rate in rates} >= {0.8, 5.0} and max(rates) > 90 * RANKS
    assert "format tqdm finds two kinds" in failure or not failure


@pytest.mark.parametrize(
    ("key", "rate"),
    [
        ({}, 8),
        ({"of": "rank"}, 8 * RANKS),
        ({"of": "node"}, 8 * NODES),
        ({"is": "seconds"}, 1 / 8),
        ({"is": "milliseconds", "times": 64}, 64 / 0.008),
        ({"is": "microseconds", "times": 0.5, "of": "rank"}, RANKS * 0.5 / 8e-6),
        # The records of all ranks add up to the job's rate.
        ({"rank": "all"}, 8 / RANKS),
        ({"rank": "all", "of": "rank"}, 8),
        ({"rank": "all", "of": "node"}, 8 * NODES / RANKS),
        ({"rank": "last", "of": "rank"}, 8 * RANKS),
        ({"pattern": r"(?P<number>\d+)(?P<milliseconds> ms)? of (?P<times>\d+)"}, 8 * 32),
    ],
)
def test_a_number_becomes_the_rate_of_the_job(
    key: Mapping[str, Any], rate: float, tmp_path: Path
) -> None:
    rates, failure = searched({"pattern": r"(\d+) of", **key}, b"8 of 32\n", tmp_path)
    assert not failure and rates == pytest.approx([rate])


def test_a_time_of_0_is_no_rate(tmp_path: Path) -> None:
    key = {"pattern": "([0-9.]+) s/step", "is": "seconds"}
    _, failure = searched(key, b"0 s/step\n1 s/step\n", tmp_path)
    assert "1 of the 2 matches" in failure and "Not a number: 0, which is a time" in failure


def test_a_rate_that_is_beyond_numbers_is_none(tmp_path: Path) -> None:
    key = {"pattern": "(?P<number>[0-9.e-]+) s of (?P<times>-?[0-9]+)", "is": "seconds"}
    _, failure = searched(key, b"1e-310 s of 9\n2 s of -1\n", tmp_path)
    assert "2 of the 2 matches" in failure and "which gives no rate" in failure


def test_a_format_that_does_not_fit_is_named_with_a_line_that_has_a_number(tmp_path: Path) -> None:
    _, failure = searched("megatron", b"12.5 samples/s\n\ndone\n", tmp_path, rank=3)
    assert "format megatron matched none of the 2 lines of rank 3" in failure
    assert "the last one with a number is '12.5 samples/s'" in failure


@pytest.mark.parametrize(
    ("key", "unit"),
    [
        ({}, "samples"),
        ({"per": "token"}, "tokens"),
        ({"per": "step"}, "steps"),
        ({"per": "step", "times": 1}, "samples"),
        ({"per": "batch"}, "batches"),
    ],
)
def test_units(key: Mapping[str, Any], unit: str) -> None:
    found = throughput_of(Throughput.model_validate({"pattern": "(x)", **key}).model_dump())
    assert found and found.unit == unit


@pytest.mark.parametrize(
    "wrong",
    [7, [], {}, {"pattern": 1}, {"pattern": "(x)", "of": "all"}, {"pattern": "(x)", "rank": -1}]
    + [{"pattern": "(x)", "times": times} for times in (0, "1", True, float("nan"))]
    + [{"pattern": "(x)", "is": "hours"}, {"pattern": "(x)", "more": 1}]
    + [{"pattern": "(x)", "per": r"\input{x}"}],
)
def test_what_run_json_may_hold_is_checked(wrong: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        throughput_of(wrong)
