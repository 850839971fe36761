"""Runs are submitted by repeat, shuffled within each; every study has another seed."""

from collections import Counter
from random import Random
from typing import Any

from argosy.study.config import parse_config
from argosy.study.runs import Run, expand, in_blocks, seed_of


def runs(repeats: int, nodes: tuple[int, ...] = (1, 2, 4), command: str = "true") -> list[Run]:
    asked: dict[str, Any] = {
        "runtime": "native",
        "command": command,
        "scale": {"nodes": list(nodes), "repeats": repeats},
    }
    return expand(parse_config({"experiments": {"one": asked, "baseline": asked}}, []))


def test_a_repeat_of_all_experiments_and_sizes_is_a_block() -> None:
    ordered = in_blocks(runs(repeats=5))
    assert [run.repeat for run in ordered] == [repeat for repeat in range(1, 6) for _ in range(6)]
    assert Counter(run.run_id for run in ordered) == Counter(run.run_id for run in runs(repeats=5))
    blocks = [tuple((run.experiment, run.nodes) for run in ordered[at : at + 6]) for at in (0, 6)]
    assert blocks[0] != blocks[1] and sorted(blocks[0]) == sorted(blocks[1])


def test_no_size_always_comes_first() -> None:
    ordered = in_blocks(runs(repeats=300))
    first = Counter((run.experiment, run.nodes) for run in ordered[::6])
    # 50 of each are expected, with a standard deviation of 6.5.
    assert len(first) == 6 and all(24 <= times <= 76 for times in first.values())


def test_more_repeats_follow_and_change_nothing_before_them() -> None:
    few, many = in_blocks(runs(repeats=2)), in_blocks(runs(repeats=4))
    assert many[: len(few)] == few
    assert seed_of(runs(repeats=2)) == seed_of(runs(repeats=4))


def test_the_seed_is_of_what_is_asked_for_not_of_how_it_is_listed() -> None:
    asked = runs(repeats=2)
    shuffled = Random(1).sample(asked, len(asked))
    assert seed_of(shuffled) == seed_of(asked) and in_blocks(shuffled) == in_blocks(asked)
    assert seed_of(runs(2, command="false")) != seed_of(asked)
