"""`argosy run` adds an experiment to a configuration, and keeps its text."""

from pathlib import Path

import pytest
import yaml

from argosy.shipped.new_experiment import add_experiment
from argosy_common.errors import ArgosyError

KEYS = {"runtime": "native", "command": "true --x 'a: b'", "scale": {"nodes": [1], "repeats": 1}}
FIRST = """\
# Mine.
site: local   # here

experiments:
    # The first one.
    one:
        {runtime: native, command: 'true', scale: {nodes: 1}}   # short
    # throughput: of the first one
"""
AFTER = """
# Only this.
only: one
"""
ALIASES = """\
experiments:
  one: &one
    runtime: native
    command: >
      true
      # not a comment
    scale: {nodes: 1}
  two: *one
"""


@pytest.mark.parametrize(
    ("text", "begins", "ends"),
    [
        (FIRST, FIRST, ""),
        (FIRST.rstrip("\n"), FIRST, ""),
        (FIRST + AFTER, FIRST, AFTER),
        (FIRST + "...\n", FIRST, "...\n"),
        (ALIASES, ALIASES, ""),
        ("\ufeff# é 😀\r\n" + ALIASES, "\ufeff# é 😀\r\n" + ALIASES, ""),
    ],
)
def test_the_text_around_it_stays(text: str, begins: str, ends: str) -> None:
    name, new = add_experiment(text, Path("config.yaml"), "mine", KEYS)
    assert name == "mine"
    assert new.startswith(begins) and new.endswith(ends)
    added = new.removeprefix(begins).removesuffix(ends)
    assert yaml.safe_load(added) == {"mine": KEYS}
    assert add_experiment(new, Path("config.yaml"), "mine", KEYS) == ("mine", new)
    name, third = add_experiment(new, Path("config.yaml"), "mine", {**KEYS, "command": "false"})
    assert name == "mine-2" and third.startswith(begins + added)


def test_a_list_in_braces_goes_on() -> None:
    text = "experiments: {one: {runtime: native, command: 'true', scale: {nodes: 1}}}  # short\n"
    name, new = add_experiment(text, Path("config.yaml"), "one", KEYS)
    assert name == "one-2" and new.endswith("}  # short\n")
    assert yaml.safe_load(new)["experiments"]["one-2"] == KEYS


@pytest.mark.parametrize(
    ("text", "keys", "problem"),
    [
        ("experiments: [\n", KEYS, "config.yaml: is not YAML"),
        ("experiments: {}\n", KEYS, "config.yaml: experiments: "),
        ("- 1\n", KEYS, "config"),
        ("", KEYS, "config"),
        (
            FIRST,
            {**KEYS, "throughput": "x"},
            "argosy run: experiments.mine.throughput: needs exactly",
        ),
        (FIRST, {**KEYS, "scale": {"nodes": [0]}}, "argosy run: experiments.mine.scale.nodes"),
        (
            "experiments: {one: {runtime: native, command: 'true', scale: {nodes: 1}}, }\n",
            KEYS,
            "in a form that Argosy cannot extend; add it yourself: {mine:",
        ),
    ],
)
def test_a_wrong_configuration_is_one_line(
    text: str, keys: dict[str, object], problem: str
) -> None:
    with pytest.raises(ArgosyError) as raised:
        add_experiment(text, Path("config.yaml"), "mine", keys)
    assert problem in str(raised.value)
