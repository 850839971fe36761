"""Bad configurations get one line that says where and what to do; good ones expand to stable runs."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from argosy.errors import ArgosyError
from argosy.jobs.launchers import LAUNCHERS
from argosy.study.config import parse_config
from argosy.study.models import Config, Experiment
from argosy.study.runs import expand

GOOD = """
experiments:
  digits:
    image: torch-cpu
    command: python3 train.py --name 'a b; $(rm -rf /)'
    scale: {nodes: [2, 1], repeats: 2}
"""


def parse(text: str) -> Config:
    return parse_config(yaml.safe_load(text), Path("config/config.yaml"))


def test_runs_have_ids_that_do_not_depend_on_the_other_points() -> None:
    few = {run.run_id: run for run in expand(parse(GOOD))}
    more = {run.run_id: run for run in expand(parse(GOOD.replace("[2, 1]", "[4, 1, 2]")))}
    assert list(few) == [
        "nodes1-ranks1-repeat1",
        "nodes1-ranks1-repeat2",
        "nodes2-ranks1-repeat1",
        "nodes2-ranks1-repeat2",
    ]
    assert all(more[run_id] == run for run_id, run in few.items())


def test_a_command_is_split_as_a_shell_would_and_never_given_to_one() -> None:
    command = parse(GOOD).experiments["digits"].command
    assert command == ("python3", "train.py", "--name", "a b; $(rm -rf /)")


def test_durations_and_sizes() -> None:
    text = GOOD + "    needs: {time: 1d2h30m, memory_per_rank: 16G}\n"
    needs = parse(text).experiments["digits"].needs
    assert (needs.time, needs.memory_per_rank) == (95_400, 16_384)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("image:", "imgae:"), "experiments.digits.imgae: no such key; did you mean image?"),
        (("repeats: 2", "repeat: 2"), "experiments.digits.scale.repeat: no such key; did you mean"),
        (
            ("repeats: 2", "repeats: two"),
            "experiments.digits.scale.repeats: input should be a valid",
        ),
        (("repeats: 2", "repeats: 0"), "experiments.digits.scale.repeats: input should be greater"),
        (("[2, 1]", "[2, -1]"), "experiments.digits.scale.nodes.1: input should be greater"),
        (("[2, 1]", "[2, 2]"), "the same node count is listed twice"),
        (("[2, 1]", "[]"), "experiments.digits.scale.nodes"),
        (("digits:", "'my digits; rm':"), "a name may hold letters, digits"),
        (("digits:", "tables:"), "choose another name"),
        (("image: torch-cpu", "image: ../../etc"), "experiments.digits.image: a name may hold"),
        (("'a b; $(rm -rf /)'", "'a b"), "experiments.digits.command: cannot be split into words"),
        (("scale:", "needs: {time: soon}\n    scale:"), "needs.time: write a duration as 30m"),
        (("scale:", "throughput: '('\n    scale:"), "throughput: is not a regular expression"),
        (("scale:", "throughput: 'a'\n    scale:"), "throughput: needs exactly one group"),
        (("scale:", "launcher: mpi\n    scale:"), "experiments.digits.launcher: input should be"),
        (("experiments:", "experiment:"), "experiment: no such key; did you mean experiments?"),
    ],
)
def test_bad_values_name_file_key_and_remedy(change: tuple[str, str], message: str) -> None:
    with pytest.raises(ArgosyError) as problem:
        parse(GOOD.replace(*change))
    text = str(problem.value)
    assert text.startswith("config/config.yaml: ")
    assert message in text
    assert "\n" not in text


def test_every_launcher_of_the_configuration_exists() -> None:
    names: Any = Experiment.model_fields["launcher"].annotation
    assert set(names.__args__) == set(LAUNCHERS)
