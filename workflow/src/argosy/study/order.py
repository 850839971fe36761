"""The order in which a study's runs are submitted: repeat by repeat, each in random order.

Repeat r of all experiments and sizes is a block: what a machine is like in that hour, its runs have in
common, and within it no size always comes first (randomised blocks, Fisher, "The Design of Experiments",
1935, ch. 4).
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable
from random import Random

from argosy.study.runs import Run


def seed_of(runs: Iterable[Run]) -> int:
    """Return the seed of a study's order, made of its experiments and sizes.

    Repeats are not in it: with more of them the blocks that there are keep their order.
    """
    asked = {run.model_dump_json(exclude={"repeat"}) for run in runs}
    digest = hashlib.sha256("\n".join(sorted(asked)).encode())
    return int.from_bytes(digest.digest()[:4], "big")


def in_blocks(runs: Iterable[Run]) -> list[Run]:
    """Return the runs in the order of their submission: by repeat, shuffled within each."""
    by_repeat: defaultdict[int, list[Run]] = defaultdict(list)
    for run in runs:
        by_repeat[run.repeat].append(run)
    seed = seed_of(run for block in by_repeat.values() for run in block)
    ordered = []
    for repeat, block in sorted(by_repeat.items()):
        block.sort(key=lambda run: (run.experiment, run.run_id))
        Random(f"{seed} {repeat}").shuffle(block)
        ordered += block
    return ordered
