"""The published models of containers/workloads, in the image that they run in."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import step_files

from argosy.images.engines import container
from argosy.images.engines.models import Bind, Container, Outcome
from argosy.images.store.store import Store

pytestmark = pytest.mark.container

COUNTING = """
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
        list(shape),
        floating_point_operations(options, size),
    ]
print(json.dumps(found))
"""

PUBLISHED = {
    "alexnet": (61_100_840, 0.71e9),
    "googlenet": (6_998_552, 1.58e9),
    "vgg16": (138_357_544, 15.5e9),
    "resnet50": (25_557_032, 4.1e9),
    "resnet101": (44_549_160, 7.8e9),
    "inception_v3": (23_834_568, 5.7e9),
    "vit_small": (22_050_664, 4.6e9),
}
"""Parameters, and multiplications with an addition each of one image's forward pass."""


Train = Callable[..., tuple[Outcome, str]]


@pytest.fixture
def python(project: Path, project_store: Store, torch_digest: str, tmp_path: Path) -> Train:
    """Run Python in the image; how it ended and what it printed."""

    def run(*arguments: str) -> tuple[Outcome, str]:
        printed: list[bytes] = []
        inside = Container(
            project_store.root(torch_digest),
            ["python3", *arguments],
            binds=[
                Bind(project / "containers/workloads", "/workloads"),
                Bind(project / "workflow/src/argosy/runtime/python", "/argosy"),
                Bind(tmp_path, "/job", writable=True),
            ],
            environment={
                "PATH": "/opt/venv/bin:/usr/bin:/bin",
                "PYTHONPATH": "/argosy",
                "OMP_NUM_THREADS": "1",
                "HOME": "/tmp",
                "ARGOSY_STEPS_FILE": "/job/rank-0.steps",
            },
            workdir="/job",
        )
        outcome = container.run(project_store, inside, printed.append)
        return outcome, b"".join(printed).decode()

    return run


def test_parameters_and_operations_are_as_published(python: Train) -> None:
    outcome, said = python("-c", COUNTING)
    assert outcome.status == 0, said
    found = json.loads(said.splitlines()[-1])
    assert {name: parameters for name, (parameters, _, _) in found.items()} == {
        name: parameters for name, (parameters, _) in PUBLISHED.items()
    }
    for name, (_, shape, operations) in found.items():
        assert shape == [2, 1000]
        # Backward takes twice the forward pass but for the first layer, whose images have no gradient.
        assert operations == pytest.approx(3 * 2 * PUBLISHED[name][1], rel=0.07), name


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        ("resnet50",),
        ("inception_v3", "--image-size", "75", "--channels-last"),
        ("vit_small", "--precision", "bf16"),
        ("googlenet", "--precision", "fp16"),
    ],
)
def test_a_model_is_trained_and_its_steps_are_recorded(
    python: Train, tmp_path: Path, options: tuple[str, ...]
) -> None:
    small = ("--image-size", "64", "--batch-size", "2", "--steps", "3", "--warm-up", "1")
    outcome, said = python("/workloads/torch/benchmark.py", *small, "--model", *options)
    assert outcome.status == 0, said
    assert said.startswith("Total img/sec on 1 CPU(s): "), said
    told = [json.loads(line) for line in (tmp_path / "rank-0.jsonl").read_text().splitlines()]
    metrics = {one["name"]: one["value"] for one in told if one["kind"] == "metric"}
    assert metrics["flops_per_sample"] > 1e8
    assert metrics["peak_memory_bytes"] > 1e8
    assert step_files.count(tmp_path / "rank-0.steps") == 3 + 1


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--model", "resnet51"), "argument --model: invalid choice: 'resnet51'"),
        (("--precision", "fp8"), "argument --precision: invalid choice: 'fp8'"),
        (("--batch-size", "0"), "argument --batch-size: 0: a number above 0 is needed"),
        (
            ("--learning-rate", "1e30", "--image-size", "64", "--batch-size", "2"),
            "the loss is nan; lower --learning-rate",
        ),
    ],
)
def test_what_cannot_be_trained_is_said_in_one_line(
    python: Train, options: tuple[str, ...], problem: str
) -> None:
    outcome, said = python("/workloads/torch/benchmark.py", *options)
    assert outcome.status not in (0, None)
    assert problem in said.splitlines()[-1], said
