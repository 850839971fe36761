"""`make bench-weak-scaling`: two ranks on two cores beside one alone, and beside two that exchange nothing.

Trainings of the same program take turns (`taking_turns.py`): one on each core alone, both of these at
once, and two ranks of Horovod. Two that exchange nothing show what two cores of this machine lose by
sharing its memory and its clock. If each of their steps ended with the slower one's, as those of ranks do,
they would also lose what the cores differ by from step to step. What ranks lose besides is the exchange.
All run by the files of the image, without a container.
"""

import json
import os
import signal
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

from allocator import SIZES
from overhead import ROOT, TRAINING_ENVIRONMENT, Program, lock_of, native_training, natively
from taking_turns import (
    SETTLING_S,
    Pair,
    Rates,
    Training,
    Turn,
    Turns,
    argument_parser,
    in_turn,
    lasting,
    measured_pairs,
    rates_of,
    signal_all,
    undisturbed,
)

from argosy.report.statistics.estimates import paired_ratio_estimate
from argosy_images.store.store import Store

PROGRAMS = {
    "digits": replace(SIZES["digits"], turns=Turns(10, 2.0 + SETTLING_S)),
    "digits-256": replace(
        SIZES["digits"],
        options={**SIZES["digits"].options, "--batch-size": 256},
        turns=Turns(8, 4.0 + SETTLING_S),
    ),
    "resnet50": replace(SIZES["resnet50"], turns=Turns(6, 8.0 + SETTLING_S)),
    "resnet50-224": replace(
        SIZES["resnet50"],
        options={**SIZES["resnet50"].options, "--image-size": 224, "--batch-size": 16},
        turns=Turns(3, 40.0 + SETTLING_S),
    ),
    # The paper trains with 32 images and more: twice the computing for the same exchange.
    "resnet50-224-32": replace(
        SIZES["resnet50"],
        options={**SIZES["resnet50"].options, "--image-size": 224, "--batch-size": 32},
        turns=Turns(3, 70.0 + SETTLING_S),
    ),
}
SETTLED_STEPS = 5
TURNS: Mapping[str, Sequence[str]] = {
    "first": ["first"],
    "second": ["second"],
    "both": ["first", "second"],
    "ranks": ["ranks"],
}
"""Which trainings run in a turn of each name."""


def main() -> int:
    """Measure, print the table and, last, the figures as JSON."""
    options = argument_parser(__doc__, PROGRAMS, "--sets", 3).parse_args()
    program = PROGRAMS[options.program]
    cores = sorted(os.sched_getaffinity(0))[:2]
    if len(cores) < 2:
        sys.exit("this takes two cores")
    found = measured_pairs(partial(all_in_turn, program, cores), options.sets)
    print(f"{options.program}: {len(found)} sets of {program.turns.count} rounds")
    figures = {
        name: share(found, *parts)
        for name, parts in {
            "two that exchange nothing, over one alone": ("both", "alone"),
            "two whose steps end together, over two that exchange nothing": ("together", "both"),
            "two ranks, over two whose steps end together": ("ranks", "together"),
            "two ranks, over one alone": ("ranks", "alone"),
        }.items()
    }
    print(json.dumps({"program": options.program, "sets": len(found), **figures}))
    return 0


def all_in_turn(program: Program, cores: Sequence[int], number: int, folder: Path) -> Pair:
    """One set of trainings; the rate of one of them alone, of one of both, and of one rank, by round."""
    ways = {
        "first": partial(on_core, cores[0], program),
        "second": partial(on_core, cores[1], program),
        "ranks": partial(by_two_ranks, cores, program),
    }
    taken: dict[str, list[Turn]] = {name: [] for name in TURNS}
    with ExitStack() as stack:
        trainings = {}
        for name, way in ways.items():
            (folder / name).mkdir()
            training = Training(way, folder / name, SETTLED_STEPS)
            trainings[name] = stack.enter_context(training)
            signal_all(training.processes, signal.SIGSTOP)
        for turn in range(program.turns.count):
            for name in in_turn(TURNS, number + turn):
                running = [each for who in TURNS[name] for each in trainings[who].processes]
                signal_all(running, signal.SIGCONT)
                taken[name].append(lasting(program.turns.seconds))
                signal_all(running, signal.SIGSTOP)
        for training in trainings.values():
            signal_all(training.processes, signal.SIGCONT)
        return rates_of_one(trainings, taken)


def rates_of_one(trainings: Mapping[str, Training], taken: Mapping[str, Sequence[Turn]]) -> Pair:
    """Means of what ran alone and of what ran at once, in rounds in which all had their steps."""
    both = [trainings[who].steps_in(taken["both"]) for who in TURNS["both"]]
    return undisturbed(
        {
            "alone": [
                mean_rates(rates)
                for rates in zip(
                    *(trainings[who].rates(taken[who]) for who in TURNS["both"]), strict=True
                )
            ],
            "both": [mean_rates([*map(rates_of, steps)]) for steps in zip(*both, strict=True)],
            "together": [rates_of(*steps) for steps in zip(*both, strict=True)],
            "ranks": trainings["ranks"].rates(taken["ranks"]),
        }
    )


def mean_rates(rates: Sequence[Rates | None]) -> Rates | None:
    """The rate of one of several; None where one of them has none."""
    known = [each for each in rates if each is not None]
    if len(known) < len(rates):
        return None
    return Rates(
        whole=statistics.mean(each.whole for each in known),
        median_step=statistics.mean(each.median_step for each in known),
    )


def share(sets: Sequence[Pair], ours: str, theirs: str) -> dict[str, float]:
    """Print and return the ratio of rates, in which those of a set's rounds count alike.

    By geometric means, so that the ratios of parts multiply to that of the whole.
    """
    ratios = [
        statistics.geometric_mean(
            one.whole / other.whole for one, other in zip(each[ours], each[theirs], strict=True)
        )
        for each in sets
    ]
    found = paired_ratio_estimate(ratios, [1.0] * len(ratios))
    interval = f"95 % interval {found.low:.3f} to {found.high:.3f}"
    print(f"  {ours:8} over {theirs:8} {found.mean:.3f}, {interval}")
    return {"ratio": found.mean, "low": found.low, "high": found.high}


def on_core(core: int, program: Program, folder: Path) -> None:
    """Train by one rank."""
    os.sched_setaffinity(0, {core})
    natively(Store.of_project(ROOT), lock_of(program), program, folder)


def by_two_ranks(cores: Sequence[object], program: Program, folder: Path) -> None:
    """Train by two ranks of Horovod, each on a core of its own, or on several: `0+1`."""
    store, lock = Store.of_project(ROOT), lock_of(program)
    python, *words = native_training(store, lock, program, folder)
    subprocess.run(
        [
            python,
            str(Path(__file__).parent / "two_ranks.py"),
            ",".join(map(str, cores)),
            str(folder),
            *words,
        ],
        cwd=folder,
        env={**TRAINING_ENVIRONMENT, "HOROVOD": str(store.root(lock.digest) / "opt/horovod")},
        stdout=subprocess.DEVNULL,
        check=False,
    )


if __name__ == "__main__":
    sys.exit(main())
