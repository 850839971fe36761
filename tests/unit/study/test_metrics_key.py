"""The key `metrics` of config.yaml."""

from typing import Any

import pytest
from pydantic import ValidationError

from argosy.study.models import Config
from argosy.study.runs import Run, expand


def run(**keys: object) -> Run:
    experiment = {
        "command": "train",
        "runtime": "native",
        "scale": {"nodes": 1, "repeats": 1},
        **keys,
    }
    [found] = expand(Config.model_validate({"experiments": {"a": experiment}}))
    return found


def test_runs_without_the_key_have_not_changed() -> None:
    assert "metrics" not in run().model_dump(mode="json")
    assert run(metrics={}) == run()


def test_patterns_are_kept_by_name() -> None:
    metrics = {"loss": "loss ([0-9.]{1,9})", "val/top@5": "(?:a|b) (?P<number>.+)"}
    found = run(metrics=metrics)
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
        ({"loss": 7}, "valid string"),
        ("loss ([0-9.]+)", "valid dictionary"),
    ],
)
def test_wrong_values_are_refused_with_a_remedy(wrong: Any, said: str) -> None:
    with pytest.raises(ValidationError, match="metrics") as problem:
        run(metrics=wrong)
    assert said in str(problem.value)
