"""`make bench-binding`: two ranks that are bound to cores of their own beside two that are not.

Both train the same program by Horovod on the same cores, and take turns (`taking_turns.py`). All run by
the files of the image, without a container; the places of the bound ranks are those of `bind: core`.
"""

import json
import os
import sys
from functools import partial

from taking_turns import Turns, argument_parser, measured_pairs, report, side_by_side
from weak_scaling import PROGRAMS, SETTLED_STEPS, by_two_ranks

from argosy.runtime.agent.processes.placement import domains_of, placed

TURNS = {"digits": Turns(6, 6.0), "resnet50": Turns(2, 60.0)}
"""Long enough for ranks that wait for each other on a busy machine."""


def main() -> int:
    """Measure, print the table and, last, the figures as JSON; 1 if bound ranks are slower."""
    options = argument_parser(__doc__, TURNS, "--pairs", 5).parse_args()
    program = PROGRAMS[options.program]
    if len(os.sched_getaffinity(0)) < 2:
        sys.exit("this takes two cores")
    bound = [
        "+".join(map(str, place.cpus))
        for place in placed(domains_of(os.sched_getaffinity(0)), [-1, -1], "core", 1)
    ]
    cpus = {"core": bound, "none": ["+".join(bound)] * 2}
    ways = {name: partial(by_two_ranks, each, program) for name, each in cpus.items()}
    measure = partial(side_by_side, ways, asked=TURNS[options.program], settled_steps=SETTLED_STEPS)
    print(f"{options.program}, two ranks, bound to {' and '.join(bound)}")
    figures = report(measured_pairs(measure, options.pairs), "core", "none")
    whole = figures["whole"]
    print(json.dumps({"program": options.program, **figures}))
    return int(isinstance(whole, dict) and whole["high"] < 1)


if __name__ == "__main__":
    sys.exit(main())
