"""The key `metrics` of config.yaml."""

from typing import Any

import pytest
from small_studies import runs_of

from argosy.study.runs import Run
from argosy_common.errors import ArgosyError


def test_patterns_are_kept_by_name() -> None:
    metrics = {"loss": "loss ([0-9.]{1,9})", "val/top@5": "(?:a|b) (?P<number>.+)"}
    [found] = runs_of(metrics=metrics)
    assert found.model_dump(mode="json")["metrics"] == metrics
    assert Run.model_validate_json(found.model_dump_json()) == found


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"loss": "loss"}, "needs exactly one group, around the number, and has 0"),
        ({"loss": "(a)(b)"}, "needs exactly one group, around the number, and has 2"),
        ({"loss": "("}, "is not a regular expression"),
        ({"throughput": "(a)"}, "is not a metric: write throughput: PATTERN"),
        ({"loss in the output": "(a)"}, "must be a word of at most 64 letters"),
        ({"": "(a)"}, "must be a word of at most 64 letters"),
        ({"loss": 7}, "write a text"),
        ("loss ([0-9.]+)", "write a map"),
    ],
)
def test_wrong_values_are_refused_with_a_remedy(wrong: Any, said: str) -> None:
    with pytest.raises(ArgosyError, match="metrics") as problem:
        runs_of(metrics=wrong)
    assert said in str(problem.value)
