"""`make bench-allocator`: training with the allocator that an image names beside the C library's.

Both run the same program of the frozen image without a container, with the image's LD_PRELOAD and without
it, on one pinned core. They take turns (`taking_turns.py`).
"""

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from overhead import DIGITS, PROGRAMS, RESNET, ROOT, Program, lock_of, natively
from taking_turns import Turns, Way, measured_pairs, pin_to_a_core, report, side_by_side

from argosy.images.store.lockfile import ImageLock
from argosy.images.store.store import Store

SIZES: Mapping[str, Program] = {
    "digits": replace(
        PROGRAMS["digits"],
        options={**DIGITS, "--batch-size": 64, "--checkpoint-every": 1000},
        turns=Turns(12, 1.0),
    ),
    "resnet50": replace(
        PROGRAMS["resnet50"],
        options={**RESNET, "--image-size": 96, "--batch-size": 8},
        turns=Turns(8, 4.0),
    ),
}
"""Larger than where a container is timed: what is taken anew in each step counts for more."""


def main() -> int:
    """Measure, print the table and, last, the figures as JSON."""
    options = parse_arguments()
    program = SIZES[options.program]
    store, lock = Store.of_project(ROOT), lock_of(program)
    pin_to_a_core()

    def trained(image: ImageLock) -> Way:
        return partial(natively, store, image, program)

    ways = {"image's": trained(lock), "libc's": trained(without_preloaded(lock))}
    pairs = measured_pairs(partial(side_by_side, ways, asked=program.turns), options.pairs)
    print(f"{options.program}, allocators")
    figures = report(pairs, "image's", "libc's")
    print(json.dumps({"program": options.program, **figures}))
    return 0


def without_preloaded(lock: ImageLock) -> ImageLock:
    """The image, but for its LD_PRELOAD."""
    config = lock.config
    variables = {name: value for name, value in config.environment.items() if name != "LD_PRELOAD"}
    return lock.model_copy(update={"config": config.model_copy(update={"environment": variables})})


def parse_arguments() -> argparse.Namespace:
    """Read what is to be measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", choices=SIZES, default="digits")
    parser.add_argument("--pairs", type=int, default=10)
    options = parser.parse_args()
    if options.pairs < 2:
        parser.error("--pairs: one pair has no interval")
    return options


if __name__ == "__main__":
    sys.exit(main())
