"""The keys `throughput`, in its three forms, and `metrics`."""

from typing import Any

import pytest
from small_studies import runs_of

from argosy.study.runs import Run
from argosy_common.errors import ArgosyError


def runs(throughput: object) -> list[Run]:
    return runs_of(scale={"nodes": [1, 2], "ranks_per_node": 2}, throughput=throughput)


@pytest.mark.parametrize(
    ("asked", "written"),
    [
        ("([0-9.]+) img/s", "([0-9.]+) img/s"),
        ({"pattern": "(x)"}, "(x)"),
        ({"pattern": "(x)", "of": "job", "rank": "1"}, {"pattern": "(x)", "rank": 1}),
        (
            {"pattern": "(x)", "is": "seconds", "times": 64},
            {"pattern": "(x)", "is": "seconds", "times": 64},
        ),
    ],
)
def test_no_more_is_written_than_was_asked_for(asked: object, written: object) -> None:
    """A pattern alone is dumped as text, so that earlier runs do not change."""
    for run in runs(asked):
        content = run.model_dump(mode="json")
        assert content["throughput"] == written
        assert Run.model_validate(content) == Run.model_validate_json(run.model_dump_json()) == run


def test_keys_beside_a_format_replace_its_own() -> None:
    [run, *_] = runs({"format": "lightning", "of": "job", "times": 32})
    written = run.model_dump(mode="json")["throughput"]
    assert (written["of"], written["per"], written["times"]) == ("job", "step", 32)
    assert Run.model_validate(run.model_dump(mode="json")) == run


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("hugingface", "did you mean huggingface?"),
        ({"format": "tqmd"}, "there is no tqmd; did you mean tqdm?"),
        ({"format": "tqdm", "pattern": "(a)"}, "remove one of the two keys"),
        ("(a)(b)", "needs exactly one group"),
        ("(?P<number>a)(b)", "or several named groups"),
        ("(?P<number>a)(?P<unit>b)", "or several named groups"),
        ({"pattern": "a"}, "needs exactly one group"),
        ({"pattern": "(a)", "is": "hours"}, "'rate', 'seconds', 'milliseconds' or 'microseconds'"),
        ({"pattern": "(a)", "rank": 2}, "there is no rank 2 of 2"),
        ({"pattern": "(a)", "rank": "middle"}, "is first, last, all or the number of a rank"),
        ({"pattern": "(a)", "per": "a b"}, "must be a word of letters"),
        ({"pattern": "(a)", "times": 0}, "greater than 0"),
        (7, "must be a pattern, the name of a format, or a mapping"),
    ],
)
def test_wrong_values_are_refused_with_a_remedy(wrong: Any, said: str) -> None:
    with pytest.raises(ArgosyError, match="throughput") as problem:
        runs(wrong)
    assert said in str(problem.value)


def test_metrics_are_kept_by_name() -> None:
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
def test_wrong_metrics_are_refused_with_a_remedy(wrong: Any, said: str) -> None:
    with pytest.raises(ArgosyError, match="metrics") as problem:
        runs_of(metrics=wrong)
    assert said in str(problem.value)
