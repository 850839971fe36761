"""Detection of patterns that match two kinds of numbers."""

import random
import re
import time
from collections.abc import Sequence

import pytest

from argosy.runtime.agent.processes.number_kinds import NumberKinds
from argosy.runtime.agent.processes.printed_numbers import rate_of

RATE = r"([0-9.]+) (?:samples|images|img)/s"


def kinds(pattern: str, lines: Sequence[str]) -> list[str]:
    """Return the two detected kinds as text."""
    found = NumberKinds()
    for line in lines:
        matches = [(match, rate_of(match)) for match in re.finditer(pattern, line)]
        if matches:
            found.note(matches)
    return [str(group) for group in found.groups()]


def deep_speed(step: int) -> str:
    rate = 80 + step % 3
    return (
        f"[Rank 0] step={step}, RunningAvgSamplesPerSec={rate - 1}.5, CurrSamplesPerSec={rate}.25"
    )


@pytest.mark.parametrize(
    ("pattern", "lines", "low", "high"),
    [
        (
            "images/sec: ([0-9.]+)",
            ["images/sec: 150.0 +/- 0.0"] * 2 + ["total images/sec: 300.00"],
            "(2 numbers, mean 150)",
            "'total images/sec: 300.00' (1 number 300)",
        ),
        (
            "images/sec: ([0-9.]+)",
            [
                f"{10 * n}\timages/sec: 150.{n} +/- 0.{n} (jitter = 0.{n})\t7.{n}"
                for n in range(1, 11)
            ]
            + ["total images/sec: 302.00"],
            "(10 numbers, mean 150",
            "(1 number 302)",
        ),
        ("SamplesPerSec=([0-9.]+)", [deep_speed(n) for n in range(20)], "RunningAvg", "Curr"),
        (
            RATE,
            [f"train step {n}: {100 + n % 3} samples/s" for n in range(20)]
            + [f"eval step {n}: {300 + n % 3} samples/s" for n in range(5)],
            "'train step 0: 100 samples/s' (20 numbers",
            "'eval step 0: 300 samples/s' (5 numbers",
        ),
        (
            "samples_per_second': ([0-9.]+)",
            [
                "{'train_runtime': 3.5, 'train_samples_per_second': 81.0}",
                "{'eval_runtime': 1.5, 'eval_samples_per_second': 240.0}",
            ],
            "train_samples",
            "eval_samples",
        ),
        (
            RATE,
            [f"[{n}] 512.{n} img/s on 4 GPUs (128.{n} img/s per GPU)" for n in range(5)],
            "mean 128",
            "mean 512",
        ),
        # Close numbers, but always two per line, or alternating.
        (
            "([0-9.]+) ?/s",
            [
                f"Train: {n} Loss: 6.{n} Time: 0.5s, {490 + n}.3/s (0.5s, {491 + n}.1/s)"
                for n in range(5)
            ],
            "(5 numbers, mean 492.3)",
            "(5 numbers, mean 493.1)",
        ),
        (
            RATE,
            [
                f"{name}: {100 + n % 7}.5 samples/s"
                for n in range(9)
                for name in ("running", "current")
            ],
            "(9 numbers, mean",
            "(9 numbers, mean",
        ),
        # After many lines with different words.
        (
            RATE,
            [
                f"{chr(97 + n % 26) * 4} {chr(97 + n // 26) * 3}: {100 + n % 5} img/s"
                for n in range(300)
            ]
            + [f"total: {300 + n} img/s" for n in range(5)],
            "(300 numbers",
            "(5 numbers, mean 302)",
        ),
        (RATE, ["epoch 1: 100 img/s (train)", "epoch 1: 400 img/s (valid)"], "train", "valid"),
    ],
)
def test_two_kinds_are_told_with_their_means(
    pattern: str, lines: Sequence[str], low: str, high: str
) -> None:
    below, above = kinds(pattern, lines)
    assert low in below and high in above, (below, above)


CHANCE = random.Random(3)


def rate(mean: float = 512) -> str:
    return f"{mean * CHANCE.gauss(1, 0.03):.1f} img/s"


@pytest.mark.parametrize(
    "lines",
    [
        [
            f"Epoch {n // 10}/10 [{n}/100] loss 0.{n} lr 1e-3 {rate()} ETA 0:{n % 60:02d}"
            for n in range(99)
        ],
        # A slow start, with days in the remaining time.
        [f"step {n} {rate(30)}, eta 1 day, 2:0{n}:11" for n in range(3)]
        + [f"step {n} {rate()}, eta 7:00:{n}" for n in range(10, 60)],
        ["Compiling: 31.0 img/s", "Warmup: 40.5 img/s"]
        + [f"step {n}: {rate()}" for n in range(20)],
        [f"{rate()} {rate()} {rate()}"],
        ["step 7: 100 img/s, then 101 img/s", "step 8: 100 img/s"] * 3,
        [f"[Sat Nov {n}] INFO {rate()}" for n in range(9)] + [f"[Tue Dec 1] WARNING {rate()}"] * 5,
        [f"saved model-{n}.pt, {rate()}" if n % 5 == 0 else f"it {n}: {rate()}" for n in range(50)],
        [f"node{n}: {rate()} loss {'nan' if n % 2 else n}" for n in range(20)],
        [f"{CHANCE.choice(['cat', 'dog', 'emu', 'fox'])}.tar: {rate()}" for n in range(50)],
        [f"{chr(97 + n % 26) * (2 + n % 9)}: {rate()}" for n in range(300)],
        [f"Img/sec: {100 + n}.5 img/s and Img/sec: {101 + n} img/s" for n in range(2)],
        [f"{'saved, ' if n % 10 == 0 else ''}{rate()}" for n in range(50)],
        [f"{'epoch' if n % 10 == 0 else 'batch'} {n}: {rate()}" for n in range(20)],
        [rate(), rate(80), rate()],
        [],
    ],
)
def test_ordinary_output_is_of_one_kind(lines: Sequence[str]) -> None:
    assert kinds(RATE, lines) == []


def test_many_forms_are_compared_in_no_time() -> None:
    words = ["".join(CHANCE.choices("abcdefghij", k=5)) for _ in range(200)]
    lines = [f"{' '.join(CHANCE.sample(words, 9))} {rate()}" for _ in range(30_000)]
    began = time.process_time()
    assert kinds(RATE, lines) == []
    assert time.process_time() - began < 20


def test_the_first_state_of_a_bar_is_no_kind() -> None:
    """The first state has no loss yet, and the time of hardly any work."""
    states = [f"{n}/9 [00:01<00:01, 60.{n}it/s, loss=0.{n}]" for n in range(2, 9)]
    assert not kinds(r"([0-9.]+)it/s", ["1/9 [00:00<00:01, 426.29it/s]", *states])
