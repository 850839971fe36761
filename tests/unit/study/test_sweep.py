"""Each combination of a sweep is an experiment, whose name depends only on its values."""

import re
import time
from typing import Any

import pytest
import small_studies

from argosy.study.config import parse_config
from argosy.study.models import Config
from argosy.study.runs import Run, expand
from argosy.study.sweep import point_name
from argosy_common.errors import ArgosyError

PRODUCT = {"lr": [0.1, "1e-2"], "batch": [32, 64]}


def configured(sweep: object, **changes: Any) -> Config:
    experiment = {
        "command": "python3 train.py --lr {lr} --batch {batch}",
        "scale": {"nodes": [1, 2], "repeats": 1},
        "sweep": sweep,
        # Without it, an image would be for a container.
        "runtime": "native",
        **changes,
    }
    return small_studies.configured("train", **experiment)


def swept(sweep: object, **changes: Any) -> list[Run]:
    return expand(configured(sweep, **changes))


def test_each_combination_is_an_experiment_of_its_own() -> None:
    runs = swept(PRODUCT, environment={"NAME": "a {lr} ${lr}", "JSON": '{"a": {b}}'})
    assert [run.experiment for run in runs if run.nodes == 1] == [
        "train-lr0.1-batch32",
        "train-lr0.1-batch64",
        "train-lr1e-2-batch32",
        "train-lr1e-2-batch64",
    ]
    assert len(runs) == 8
    run = runs[2]
    assert run.command == ("python3", "train.py", "--lr", "0.1", "--batch", "64")
    assert run.environment == {"NAME": "a 0.1 ${lr}", "JSON": '{"a": {b}}'}
    assert run.sweep and (run.sweep.of, run.asked_as) == ("train", "train")
    assert run.sweep.values == {"lr": "0.1", "batch": "64"}


def test_a_value_stays_one_word() -> None:
    [run, _] = swept({"lr": ["a; $(b)"], "batch": [1]})
    assert run.command[3] == "a; $(b)"
    assert re.fullmatch(r"train-lra____b_-batch1-[0-9a-f]{8}", run.experiment)


def test_forms_are_the_same_experiments() -> None:
    product = swept(PRODUCT)
    assert product == swept({"product": PRODUCT})
    both = [{"lr": lr, "batch": batch} for lr in PRODUCT["lr"] for batch in PRODUCT["batch"]]
    assert product == swept({"list": both})
    turned = [*both[:1], *({"batch": each["batch"], "lr": each["lr"]} for each in both[1:])]
    assert product == swept({"list": turned})


def test_more_samples_and_names_change_no_earlier_ones() -> None:
    ranges = {"lr": ["1e-4", 0.1, "log"], "batch": [16, 4096]}
    few = swept({"random": ranges, "samples": 10, "seed": 7})
    more = swept({"random": {**ranges, "width": [0.5, 1]}, "samples": 40, "seed": 7}, command=WIDE)
    assert few == swept({"random": ranges, "samples": 20, "seed": 7})[:20]
    assert [values(run)[:2] for run in more[:20]] == [values(run) for run in few]
    for run in more:
        lr, batch, width = map(float, values(run))
        assert 1e-4 <= lr <= 0.1 and batch in range(16, 4097) and 0.5 <= width <= 1
    assert few != swept({"random": ranges, "samples": 10})


WIDE = "python3 train.py --lr {lr} --batch {batch} --width {width}"


def values(run: Run) -> list[str]:
    assert run.sweep
    return [*run.sweep.values.values()]


def test_names_are_distinct_short_and_stable() -> None:
    ambiguous = [{"a": "x-by", "b": "z"}, {"a": "x", "b": "y-bz"}]
    odd = [{"a": "1/2"}, {"a": "1_2"}, {"a": "1 2"}, {"a": "é"}, {"a": "x" * 500}, {"a": "x" * 501}]
    names = [point_name("train", each) for each in [*ambiguous, *odd]]
    assert len({*names}) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,56}", name) for name in names)
    assert names[3] == "train-a1_2"
    assert point_name("e" * 64, {"a": "1"}) != point_name("e" * 64, {"a": "2"})


def test_images_and_runtimes_of_a_sweep() -> None:
    runs = swept(
        {"torch": ["torch-cpu", "tensorflow-cpu"]},
        image="{torch}",
        runtime=["container", "native"],
        command="true",
    )
    assert {(run.experiment, run.image, run.native_of) for run in runs} == {
        ("train-torchtorch-cpu", "torch-cpu", None),
        ("train-torchtorch-cpu-native", "torch-cpu", "train-torchtorch-cpu"),
        ("train-torchtensorflow-cpu", "tensorflow-cpu", None),
        ("train-torchtensorflow-cpu-native", "tensorflow-cpu", "train-torchtensorflow-cpu"),
    }


def test_one_combination_or_all_can_be_selected() -> None:
    config = configured(PRODUCT)
    for only, count in ((("train",), 4), (("train-lr0.1-batch32",), 1)):
        content = {**config.model_dump(exclude={"experiments"}), "only": only}
        content["experiments"] = config.experiments
        assert len(Config.model_validate(content).selected) == count


@pytest.mark.parametrize(
    ("sweep", "changes", "said"),
    [
        ({"lr": [1], "batch": [1], "x": [1]}, {}, "train: sweep: x changes nothing: write {x} in"),
        ({"lr": [1, 1], "batch": [1]}, {}, "train.sweep.product.lr: a value is listed twice"),
        ({"repeat": [1]}, {}, "{repeat} is reserved for each run's own value"),
        ({"l r": [1]}, {}, "a name has letters, digits and '_'"),
        ({"lr": []}, {}, "train.sweep.product.lr: needs 1 or more"),
        ({"lr": 5}, {}, "train.sweep.product.lr: write a list: [VALUE] (it is 5)"),
        ({"lr": [True]}, {}, "train.sweep.product.lr.0: write it in quotes: YAML reads it as"),
        ({}, {}, "train.sweep.product: needs 1 or more"),
        ({"list": [{"lr": 1}, {"batch": 1}]}, {}, "each combination has the same names"),
        (
            {"list": [{"lr": 1}], "lr": [1]},
            {},
            "train.sweep.lr: no such key; there are product, list",
        ),
        ({"random": {"lr": [0, 1]}}, {}, "are for random, which needs samples"),
        ({"product": {"lr": [1]}, "seed": 3}, {}, "samples and seed are for random"),
        (
            {"random": {"lr": [0, 1, "log"]}, "samples": 2},
            {},
            "a logarithmic range must begin above 0",
        ),
        ({"random": {"lr": [1, 0]}, "samples": 2}, {}, "the first number must be below the second"),
        ({"random": {"lr": "ab"}, "samples": 2}, {}, "write [low, high], or [low, high, log]"),
        ({"random": {"lr": ["a", 1]}, "samples": 2}, {}, "write numbers: [low, high]"),
        (
            {"random": {"lr": [1, 2], "batch": [1, 2]}, "samples": 9},
            {},
            "a combination occurs twice",
        ),
        ({"lr": [1], "batch": [1]}, {"image": "{lr}:{batch}"}, "train.image: is not an image"),
        (None, {"image": "{lr}"}, "train.image: a name may contain letters"),
        (
            {"lr": ["srun"]},
            {"command": "{lr} ./train"},
            "srun: the command is started on every node",
        ),
        (
            {"lr": [1], "batch": [1]},
            {"scale": {"nodes": 1, "repeats": 10_000}, "runtime": ["native"]},
            "",
        ),
        (
            {"lr": [1, 2], "batch": [1]},
            {"scale": {"nodes": 1, "repeats": 5001}},
            "experiments.train.sweep: it has 10,002 runs, more than 10,000",
        ),
    ],
)
def test_a_mistake_is_one_line(sweep: object, changes: dict[str, Any], said: str) -> None:
    if not said:
        assert len(swept(sweep, **changes)) == 10_000
        return
    with pytest.raises(ArgosyError) as refused:
        swept(sweep, **changes)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
    assert ("at least 1" in str(refused.value)) == ("at least 1" in said)


def test_a_million_combinations_are_refused_at_once() -> None:
    began = time.monotonic()
    with pytest.raises(ArgosyError, match="it has 1,000,000 combinations, more than 10,000"):
        swept({"lr": [*range(1000)], "batch": [*range(1000)]})
    assert time.monotonic() - began < 2


@pytest.mark.parametrize(
    ("others", "said"),
    [
        ({"a-x1": {}}, r"experiments\.a-x1: the sweep of a makes an experiment"),
        # Two sweeps may make the same name, and only one of the two experiments would run.
        (
            {"a-x1": {"sweep": {"y": [2]}, "command": "true {y}"}, "a": {"sweep": {"x": ["1-y2"]}}},
            r"experiments\.a-x1-y2: the sweep of a-x1 makes an experiment",
        ),
        (
            {"a-x1-native": {}, "a": {"runtime": ["container", "native"], "image": "i"}},
            r"experiments\.a-x1-native: the runtime of a-x1 already adds an experiment",
        ),
    ],
)
def test_no_two_experiments_have_one_name(others: dict[str, Any], said: str) -> None:
    swept_one = {"command": "true {x}", "sweep": {"x": [1]}}
    plain = {"runtime": "native", "command": "true", "scale": {"nodes": 1}}
    asked = {"a": swept_one | others.pop("a", {}), **others}
    with pytest.raises(ArgosyError, match=said):
        parse_config({"experiments": {name: plain | each for name, each in asked.items()}}, [])
