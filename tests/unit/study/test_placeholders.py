"""Placeholders become the run's numbers and the site's variables; other braces stay."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_studies import configured

from argosy.runtime.contract.placeholders import filled
from argosy.study.runs import Run, expand, seed_of
from argosy_common.errors import ArgosyError

VALUES = {"nodes": "2", "ranks_per_node": "4", "site.batch": "64"}
OTHERS = (
    '{"lr": 1, "a": {"b": {}}}',
    "${nodes} $nodes ${site.batch}",
    "awk '{print $1}' {} {{}} {{ }}",
    "{unknown} {{unknown}} {Nodes} {nodes:d} { nodes }",
)


@pytest.mark.parametrize("word", OTHERS)
def test_other_braces_stay(word: str) -> None:
    assert filled([word], VALUES) == (word,)


@given(st.text("{}$ nodes.", max_size=30))
def test_text_without_a_known_name_is_left_alone(word: str) -> None:
    if "{nodes}" not in word:
        assert filled([word], VALUES) == (word,)


@given(
    st.lists(
        st.sampled_from(["{nodes}", "{{nodes}}", "${nodes}", "{ranks_per_node}", "x", "é", '"'])
    )
)
def test_each_known_name_is_replaced_once(parts: list[str]) -> None:
    meant = {"{nodes}": "2", "{{nodes}}": "{nodes}", "{ranks_per_node}": "4"}
    told = " ".join(meant.get(part, part) for part in parts)
    assert filled([" ".join(parts)], VALUES) == (told,)


def runs(repeats: int = 1, variables: dict[str, str] | None = None, **more: Any) -> list[Run]:
    asked = {
        "command": "train --nodes {nodes} --ranks={ranks} --out {output}/{repeat} {{nodes}} '{\"a\": 1}'",
        "environment": {"SEED": "{repeat}", "BATCH": "x{ranks_per_node}", "NAME": "{experiment}"},
        "scale": {"nodes": [1, 3], "repeats": repeats, "ranks_per_node": 2},
        **more,
    }
    return expand(configured(**asked), variables or {})


def test_each_run_has_its_own_numbers() -> None:
    _, run = runs()
    assert run.command == (
        *("train", "--nodes", "3", "--ranks=6", "--out", "/job/output/1", "{nodes}", '{"a": 1}'),
    )
    assert run.environment == {"SEED": "1", "BATCH": "x2", "NAME": "one"}


def test_sizes_and_repeats_are_of_the_same_work() -> None:
    written = {(run.as_written.command, *run.as_written.environment.items()) for run in runs(3)}
    assert len(written) == 1
    # More repeats keep the order of the earlier ones.
    assert seed_of(runs(1)) == seed_of(runs(3))


def test_the_native_twin_of_an_experiment_has_its_name() -> None:
    both = runs(runtime=["container", "native"], image="torch-cpu")
    assert {run.experiment for run in both} == {"one", "one-native"}
    assert {run.environment["NAME"] for run in both} == {"one"}


def test_variables_of_the_site_are_in_the_words_as_written() -> None:
    found = runs(variables={"batch": "64"}, command="train {site.batch} {nodes} ${site.batch}")
    assert found[1].command == ("train", "64", "3", "${site.batch}")
    assert found[1].as_written.command == ("train", "64", "{nodes}", "${site.batch}")


@pytest.mark.parametrize(
    ("key", "more"),
    [
        ("experiments.one.command", {"command": "train --data {site.data}"}),
        ("experiments.one.environment.DATA", {"environment": {"DATA": "{site.data}/x"}}),
    ],
)
def test_a_variable_that_the_site_lacks_is_named(key: str, more: dict[str, Any]) -> None:
    with pytest.raises(ArgosyError) as refused:
        runs(variables={"batch": "64"}, **more)
    assert (
        refused.value.problem
        == f"{key}: {{site.data}}: slurm/local/site.yaml has no variables.data"
    )
