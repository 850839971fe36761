"""The published models of containers/workloads, in their containers."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import pytest
import step_files

from argosy_images.engines.models import Outcome

pytestmark = pytest.mark.container

COUNTING = {
    "torch": """
import argparse, json, sys
sys.path.insert(0, "/workloads/torch")
sys.argv = ["benchmark.py"]
import torch
from benchmark import floating_point_operations, parse_arguments
from models import IMAGE_SIZES, MODELS
found = {}
for name, build in MODELS.items():
    size = IMAGE_SIZES.get(name, 224)
    with torch.device("meta"):
        model = build()
        shape = model(torch.empty(2, 3, size, size)).shape
    options = argparse.Namespace(**{**vars(parse_arguments()), "model": name})
    found[name] = [
        sum(one.numel() for one in model.parameters()),
        shape[1],
        floating_point_operations(options, size),
    ]
print(json.dumps(found))
""",
    "tensorflow": """
import json, sys
sys.path.insert(0, "/workloads/tensorflow")
import tensorflow as tf
from benchmark import floating_point_operations
from models import IMAGE_SIZES, MODELS
found = {}
for name, build in MODELS.items():
    model = build(IMAGE_SIZES.get(name, 224))
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    found[name] = [
        sum(one.shape.num_elements() for one in model.trainable_variables),
        model.output_shape[1],
        floating_point_operations(model, loss),
    ]
    tf.keras.backend.clear_session()
print(json.dumps(found))
""",
}

PUBLISHED = {
    "alexnet": (61_100_840, 0.71e9),
    "googlenet": (6_998_552, 1.58e9),
    "vgg16": (138_357_544, 15.5e9),
    "resnet50": (25_557_032, 4.1e9),
    "resnet101": (44_549_160, 7.8e9),
    "inception_v3": (23_834_568, 5.7e9),
    "vit_small": (22_050_664, 4.6e9),
}
"""Parameters, and multiply-adds of one image's forward pass."""


FRAMEWORKS = ("torch", "tensorflow")
DIVERGING = "--learning-rate 1e30 --model alexnet --image-size 96 --batch-size 2"

Python = Callable[..., tuple[Outcome, str]]


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_parameters_and_operations_are_as_published(python: Python, framework: str) -> None:
    outcome, said = python(framework, "-c", COUNTING[framework])
    assert outcome.status == 0, said
    found = json.loads(said.splitlines()[-1])
    assert {name: parameters for name, (parameters, _, _) in found.items()} == {
        name: parameters for name, (parameters, _) in PUBLISHED.items()
    }
    for name, (_, classes, operations) in found.items():
        assert classes == 1000
        # Backward costs twice forward, except for the first layer, whose input has no gradient.
        assert operations == pytest.approx(3 * 2 * PUBLISHED[name][1], rel=0.07), name


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize(
    ("framework", "options"),
    [
        ("torch", ("resnet50",)),
        ("torch", ("inception_v3", "--image-size", "75", "--channels-last")),
        ("torch", ("vit_small", "--precision", "bf16")),
        ("torch", ("googlenet", "--precision", "fp16")),
        ("tensorflow", ("resnet50", "--precision", "bf16")),
        ("tensorflow", ("alexnet", "--image-size", "96")),
        ("tensorflow", ("vit_small",)),
    ],
)
def test_a_model_is_trained_and_its_steps_are_recorded(
    python: Python, tmp_path: Path, framework: str, options: tuple[str, ...]
) -> None:
    small = ("--image-size", "64", "--batch-size", "2", "--steps", "11", "--warm-up", "1")
    program = f"/workloads/{framework}/benchmark.py"
    outcome, said = python(framework, program, *small, "--model", *options)
    assert outcome.status == 0, said
    assert said.splitlines()[-1].startswith("Total img/sec on 1 CPU(s): "), said
    told = [json.loads(line) for line in (tmp_path / "rank-0.jsonl").read_text().splitlines()]
    metrics = {one["name"]: one["value"] for one in told if one["kind"] == "metric"}
    assert metrics["flops_per_sample"] > 1e8
    assert metrics["peak_memory_bytes"] > 1e8
    steps = [*step_files.all_steps(tmp_path / "rank-0.steps")]
    assert len(steps) == 11 + 1
    for step in steps:
        assert set(step.phases) == {"forward", "backward", "communication", "update"}
        assert all(seconds >= 0 for seconds in step.phases.values())
    # The median, since any step may be interrupted between two phases.
    assert median(sum(step.phases.values()) / step.seconds for step in steps) > 0.98
    # Gradients become ready from the last layer to the first.
    [layers] = [one["layers"] for one in told if one["kind"] == "layers"]
    ready = [one["ready_s"] for one in layers]
    assert ready == sorted(ready)
    assert 0 <= ready[0] < ready[-1] < 10
    assert sum(one["bytes"] for one in layers) == 4 * PUBLISHED[options[0]][0] or options[0] in (
        "vit_small",
        "alexnet",
    )


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.quiet
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_its_times_are_those_of_a_clock_outside(
    python: Python, tmp_path: Path, framework: str
) -> None:
    lines: list[tuple[float, bytes]] = []
    options = ("--image-size", "64", "--batch-size", "4", "--steps", "40", "--warm-up", "3")
    outcome, said = python(
        *(framework, f"/workloads/{framework}/benchmark.py", *options),
        heard=lambda data: lines.append((time.monotonic(), data)),
    )
    assert outcome.status == 0, said
    [began] = [at for at, data in lines if b"measuring 40 steps after 3" in data]
    [ended] = [at for at, data in lines if b"Total img/sec" in data]
    steps = [*step_files.all_steps(tmp_path / "rank-0.steps")][3:]
    recorded = sum(step.seconds for step in steps)
    assert recorded == pytest.approx(ended - began, rel=0.02)
    assert sum(sum(step.phases.values()) for step in steps) == pytest.approx(recorded, rel=0.02)
    [rate] = [float(line.split()[5]) for line in said.splitlines() if line.startswith("Total")]
    assert rate == pytest.approx(40 * 4 / (ended - began), rel=0.02)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("framework", "options", "problem"),
    [
        # Both benchmarks use the same parser of options.
        ("torch", "--model resnet51", "argument --model: invalid choice: 'resnet51'"),
        ("torch", "--precision fp8", "argument --precision: invalid choice: 'fp8'"),
        ("torch", "--batch-size 0", "argument --batch-size: 0: a number above 0 is needed"),
        ("torch", DIVERGING, "the loss is nan; lower --learning-rate"),
        ("tensorflow", DIVERGING, "the loss is nan; lower --learning-rate"),
    ],
)
def test_what_cannot_be_trained_is_said_in_one_line(
    python: Python, framework: str, options: str, problem: str
) -> None:
    outcome, said = python(framework, f"/workloads/{framework}/benchmark.py", *options.split())
    assert outcome.status not in (0, None)
    assert problem in said.splitlines()[-1], said
