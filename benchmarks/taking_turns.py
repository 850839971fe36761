"""Two trainings on one pinned core that take turns of half a second, one stopped while the other runs.

So both meet the same weather: from minute to minute these machines differ by a quarter, and one start
of a program differs from the next. Samples per second are those of the steps that begin in a turn, from
the start of one to the start of the next: by all their time, and by the median step.
"""

import json
import multiprocessing
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil

from argosy.analysis.statistics import paired_ratio_estimate

TURNS = 24
TURN_S = 0.5
SETTLING_S = 0.05
"""Of a turn, in which caches fill again."""
FEWEST_STEPS = 5
"""Of a turn: there are some twenty."""
STEPS_WRITTEN_S = 1.5
PATIENCE_S = 120.0

Way = Callable[[Path], None]
"""Trains with a folder of its own, until it is killed, and has its steps in `steps.jsonl` there."""


@dataclass(frozen=True)
class Rates:
    """Samples per second of one turn."""

    whole: float
    median_step: float


Pair = Mapping[str, list[Rates]]
"""The rates of both trainings, by turn."""


class Training:
    """A training under way, which can be stopped and let go on."""

    def __init__(self, way: Way, folder: Path) -> None:
        self._steps_file = folder / "steps.jsonl"
        # Its own process, since a container is waited for with handlers of signals.
        self._runner = multiprocessing.get_context("fork").Process(target=way, args=(folder,))
        self._runner.start()
        self._wait_for_an_epoch(time.monotonic() + PATIENCE_S)
        self._processes = psutil.Process(self._runner.pid).children(recursive=True)
        self._turns: list[tuple[float, float]] = []

    def _wait_for_an_epoch(self, latest: float) -> None:
        while not any(record["epoch"] > 0 for record in self._records()):
            time.sleep(0.2)
            if time.monotonic() > latest or not self._runner.is_alive():
                sys.exit("a training made no steps")

    def _records(self) -> list[dict[str, Any]]:
        if not self._steps_file.exists():
            return []
        whole = self._steps_file.read_text().rpartition("\n")[0]
        records = map(json.loads, whole.splitlines())
        return [record for record in records if record["kind"] == "step"]

    def stop(self) -> None:
        """Let none of its processes run."""
        self._signal(signal.SIGSTOP)

    def take_turn(self, seconds: float = TURN_S) -> None:
        """Let it run for so long."""
        self._signal(signal.SIGCONT)
        began = time.monotonic()
        time.sleep(seconds)
        self.stop()
        self._turns.append((began + SETTLING_S, time.monotonic()))

    def rates(self) -> list[Rates | None]:
        """Of each turn; None where something held it up for nearly all of it."""
        turns = [*self._turns]
        self.take_turn(STEPS_WRITTEN_S)
        records = self._records()
        return [_rates(records, *turn) for turn in turns]

    def end(self) -> None:
        """Kill it."""
        self._signal(signal.SIGKILL)
        self._runner.join()

    def _signal(self, number: int) -> None:
        for process in self._processes:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(number)


def _rates(records: list[dict[str, Any]], began: float, ended: float) -> Rates | None:
    within = [record for record in records if began <= record["start"] <= ended]
    if len(within) < FEWEST_STEPS:
        return None
    seconds = [after["start"] - one["start"] for one, after in pairwise(within)]
    return Rates(
        whole=sum(record["samples"] for record in within[:-1]) / sum(seconds),
        median_step=max(record["samples"] for record in within) / statistics.median(seconds),
    )


def pin_to_a_core() -> None:
    """Have this process, and all that it starts, on one core."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def measured_pairs(ways: Mapping[str, Way], pairs: int) -> list[Pair]:
    """Pairs of trainings, each started anew."""
    found = []
    for number in range(pairs):
        found.append(_measured_pair(ways, number))
        said = ", ".join(
            f"{name} {statistics.mean(rate.whole for rate in rates):.0f}/s"
            for name, rates in sorted(found[-1].items())
        )
        print(f"pair {number + 1} of {pairs}: {said}", file=sys.stderr)
    return found


def _measured_pair(ways: Mapping[str, Way], pair: int) -> Pair:
    """Who begins changes from pair to pair and from turn to turn."""
    with tempfile.TemporaryDirectory(prefix="argosy-bench-") as scratch:
        trainings: dict[str, Training] = {}
        for name in sorted(ways, reverse=bool(pair % 2)):
            (Path(scratch) / name).mkdir()
            trainings[name] = Training(ways[name], Path(scratch) / name)
            trainings[name].stop()
        for turn in range(TURNS):
            for name in sorted(ways, reverse=bool((pair + turn) % 2)):
                trainings[name].take_turn()
        by_turn = [*zip(*(training.rates() for training in trainings.values()), strict=True)]
        for training in trainings.values():
            training.end()
    kept = [rates for rates in by_turn if None not in rates]
    if len(kept) < len(by_turn):
        print(f"left out: {len(by_turn) - len(kept)} of {len(by_turn)} turns", file=sys.stderr)
    return {name: [rates[place] for rates in kept] for place, name in enumerate(trainings)}


def report(pairs: Sequence[Pair], ours: str, theirs: str) -> dict[str, object]:
    """Print the table of ratios of `ours` to `theirs`; the figures."""
    print(f"samples/s of one rank on one core, {len(pairs)} pairs of {TURNS} turns each")
    figures: dict[str, object] = {"pairs": len(pairs), "turns": TURNS}
    for kind in ("whole", "median_step"):
        for name in (ours, theirs):
            values = [getattr(rate, kind) for pair in pairs for rate in pair[name]]
            spread = f"({min(values):.1f} to {max(values):.1f})"
            print(f"  {kind:12} {name:10} {statistics.median(values):8.1f}   {spread}")
        ratios = [_ratio(pair[ours], pair[theirs], kind) for pair in pairs]
        found = paired_ratio_estimate(ratios, [1.0] * len(ratios))
        print(
            f"  {kind:12} ratio {found.mean:.4f}, 95 % interval {found.low:.4f} to {found.high:.4f}"
        )
        figures[kind] = {"ratio": found.mean, "low": found.low, "high": found.high}
    return figures


def _ratio(ours: list[Rates], theirs: list[Rates], kind: str) -> float:
    """Of a pair: the median over its turns, for a turn may be disturbed."""
    return statistics.median(
        getattr(one, kind) / getattr(other, kind) for one, other in zip(ours, theirs, strict=True)
    )
