"""`make bench-allocator`: training with the allocator that an image names beside the C library's.

Both run the same program of the frozen image without a container, with the image's LD_PRELOAD and without
it, on one pinned core. They take turns (`taking_turns.py`).
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from overhead import DIGITS, PROGRAMS, RESNET, ROOT, Program, lock_of, natively
from taking_turns import (
    Turns,
    Way,
    argument_parser,
    measured_pairs,
    pin_to_a_core,
    report,
    side_by_side,
)

from argosy_images.store.store import Store

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
    options = argument_parser(__doc__, SIZES, "--pairs", 10).parse_args()
    program = SIZES[options.program]
    pin_to_a_core()
    trained = partial(natively, Store.of_project(ROOT), lock_of(program), program)
    ways: dict[str, Way] = {"image's": trained, "libc's": partial(trained, LD_PRELOAD="")}
    pairs = measured_pairs(partial(side_by_side, ways, asked=program.turns), options.pairs)
    print(f"{options.program}, allocators")
    figures = report(pairs, "image's", "libc's")
    print(json.dumps({"program": options.program, **figures}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
