"""Two ways to train that take turns of seconds on one pinned core, so that both meet the same weather.

From minute to minute these machines differ by a quarter. Samples per second are those of the steps that
begin in a turn, from the start of one to the start of the next: by all their time, and by the median step.
"""

import argparse
import multiprocessing
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import psutil

from argosy.report.statistics.estimates import paired_ratio_estimate
from argosy.runtime.contract.steps import Step, read_steps

SETTLING_S = 0.05
"""Of a turn, in which caches fill again."""
FEWEST_STEPS = 5
"""Of a turn: there are some twenty."""
SETTLED_STEPS = 40
"""After which a training takes its turns."""
STEPS_WRITTEN_S = 1.5
PATIENCE_S = 120.0

Way = Callable[[Path], None]
"""Trains with a folder of its own, until it is killed, and has its steps in `rank-0.steps` there."""

Turn = tuple[float, float]
"""When it began and ended, on the monotonic clock."""


@dataclass(frozen=True)
class Turns:
    """How many turns of how many seconds each training has; some twenty steps are to fit into one."""

    count: int = 24
    seconds: float = 0.5


@dataclass(frozen=True)
class Rates:
    """Samples per second of one turn."""

    whole: float
    median_step: float


Pair = Mapping[str, list[Rates]]
"""The rates of both trainings, by turn."""


class Training:
    """A training under way, to be used in a `with` statement, which ends it."""

    def __init__(self, way: Way, folder: Path, settled_steps: int = SETTLED_STEPS) -> None:
        self._steps_file, self._settled_steps = folder / "rank-0.steps", settled_steps
        # Its own process, since a container is waited for with handlers of signals.
        self._runner = multiprocessing.get_context("fork").Process(target=way, args=(folder,))

    def __enter__(self) -> "Training":
        self._runner.start()
        latest = time.monotonic() + PATIENCE_S
        while len(self._steps()) < self._settled_steps:
            time.sleep(0.2)
            if time.monotonic() > latest or not self._runner.is_alive():
                self.__exit__()
                sys.exit("a training made no steps")
        return self

    def __exit__(self, *error: object) -> None:
        signal_all(self.processes, signal.SIGKILL)
        self._runner.join()

    @property
    def processes(self) -> list[psutil.Process]:
        """All that it consists of."""
        children = psutil.Process(self._runner.pid).children(recursive=True)
        return [each for each in children if each.status() != psutil.STATUS_ZOMBIE]

    def _steps(self) -> list[Step]:
        if not self._steps_file.exists():
            return []
        with self._steps_file.open("rb") as file:
            return [step for step in read_steps(file.fileno()) if step]

    def rates(self, turns: Sequence[Turn]) -> list[Rates | None]:
        """Of each turn; None where something held it up for nearly all of it."""
        return [rates_of(steps) for steps in self.steps_in(turns)]

    def steps_in(self, turns: Sequence[Turn]) -> list[list[Step]]:
        """The steps that began in each turn, in their order."""
        time.sleep(STEPS_WRITTEN_S)
        steps = self._steps()
        return [[step for step in steps if began <= step.start <= ended] for began, ended in turns]


def signal_all(processes: Sequence[psutil.Process], number: int) -> None:
    """Send a signal to those that are left."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)


def lasting(seconds: float) -> Turn:
    """The turn that begins now and is over when this returns."""
    began = time.monotonic()
    time.sleep(seconds)
    return began + SETTLING_S, time.monotonic()


def rates_of(*trainings: Sequence[Step]) -> Rates | None:
    """Of the steps of a turn: of one training, or of several if the slowest one's step ended each."""
    seconds = [
        max(steps) for steps in zip(*(_seconds_of(steps) for steps in trainings), strict=False)
    ]
    if len(seconds) < FEWEST_STEPS - 1:
        return None
    samples = [step.samples for step in trainings[0]]
    return Rates(
        whole=sum(samples[: len(seconds)]) / sum(seconds),
        median_step=max(samples) / statistics.median(seconds),
    )


def _seconds_of(steps: Sequence[Step]) -> list[float]:
    """From the start of each to the start of the next."""
    return [after.start - one.start for one, after in pairwise(steps)]


def argument_parser(
    description: str | None, programs: Iterable[str], repeats: str, default: int
) -> argparse.ArgumentParser:
    """Read which of the programs is to be measured, and by the option `repeats` how many times."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--program", choices=list(programs), default="digits")
    parser.add_argument(repeats, type=_several, default=default)
    return parser


def _several(text: str) -> int:
    number = int(text)
    if number < 2:
        raise argparse.ArgumentTypeError("at least 2: one has no interval")
    return number


def pin_to_a_core() -> None:
    """Have this process, and all that it starts, on one core."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def measured_pairs(measure: Callable[[int, Path], Pair], pairs: int) -> list[Pair]:
    """Each `measure` is given its number and an empty folder."""
    # By default these end the benchmark at once, and its trainings go on.
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, lambda *_: sys.exit("stopped"))
    found = []
    for number in range(pairs):
        with tempfile.TemporaryDirectory(prefix="argosy-bench-") as scratch:
            found.append(measure(number, Path(scratch)))
        said = ", ".join(
            f"{name} {statistics.mean(rate.whole for rate in rates):.4g}/s"
            for name, rates in sorted(found[-1].items())
        )
        print(f"pair {number + 1} of {pairs}: {said}", file=sys.stderr)
    return found


def side_by_side(
    ways: Mapping[str, Way],
    number: int,
    folder: Path,
    *,
    asked: Turns = Turns(),
    settled_steps: int = SETTLED_STEPS,
) -> Pair:
    """Two trainings, one of which is stopped while the other has its turn."""
    turns: dict[str, list[Turn]] = {name: [] for name in ways}
    with ExitStack() as stack:
        trainings: dict[str, Training] = {}
        for name in in_turn(ways, number):
            (folder / name).mkdir()
            trainings[name] = stack.enter_context(
                Training(ways[name], folder / name, settled_steps)
            )
            signal_all(trainings[name].processes, signal.SIGSTOP)
        for turn in range(asked.count):
            for name in in_turn(ways, number + turn):
                signal_all(trainings[name].processes, signal.SIGCONT)
                turns[name].append(lasting(asked.seconds))
                signal_all(trainings[name].processes, signal.SIGSTOP)
        for training in trainings.values():
            signal_all(training.processes, signal.SIGCONT)
        return undisturbed({name: each.rates(turns[name]) for name, each in trainings.items()})


def in_turn(names: Iterable[str], number: int) -> list[str]:
    """Who begins changes from one to the next."""
    return sorted(names, reverse=bool(number % 2))


def undisturbed(rates: Mapping[str, Sequence[Rates | None]]) -> Pair:
    """Those turns that both had."""
    by_turn = [*zip(*rates.values(), strict=True)]
    kept = [both for both in by_turn if None not in both]
    if not kept:
        sys.exit(f"no turn was long enough for {FEWEST_STEPS} steps of each training")
    if len(kept) < len(by_turn):
        print(f"left out: {len(by_turn) - len(kept)} of {len(by_turn)} turns", file=sys.stderr)
    return {name: [both[place] for both in kept] for place, name in enumerate(rates)}


def report(pairs: Sequence[Pair], ours: str, theirs: str) -> dict[str, object]:
    """Print the table of ratios of `ours` to `theirs`; the figures."""
    turns = max(len(pair[ours]) for pair in pairs)
    print(f"samples/s of one rank, {len(pairs)} pairs of {turns} turns each")
    figures: dict[str, object] = {"pairs": len(pairs), "turns": turns}
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
