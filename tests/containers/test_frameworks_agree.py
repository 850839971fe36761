"""Compare one training step in PyTorch and TensorFlow, with the same weights and images."""

import json
import statistics
from pathlib import Path
from typing import Any

import pytest
from image_programs import run_python

from argosy_images.engines.models import Bind
from argosy_images.store.store import Store

# The first of them builds an image with TensorFlow and Horovod.
pytestmark = [
    pytest.mark.thorough,
    pytest.mark.container,
    pytest.mark.slow,
    pytest.mark.timeout(1500),
]

MODELS = ("resnet50", "googlenet", "inception_v3")
SIZE = 96

Agreement = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def agreement(
    project_store: Store, roots: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Agreement:
    """Return the differences of loss and gradients by model and precision."""
    folder = tmp_path_factory.mktemp("step")

    def run(framework: str) -> str:
        outcome, said = run_python(
            project_store,
            roots[framework],
            [f"/job/{framework}_gradients.py", "/data", str(SIZE), *MODELS],
            Bind(Path(__file__).parent / "programs", "/job"),
            Bind(folder, "/data", writable=True),
        )
        assert outcome.status == 0, said
        return said

    run("torch")
    found: Agreement = json.loads(run("tensorflow").splitlines()[-1])
    return found


@pytest.mark.parametrize("name", MODELS)
def test_loss_and_gradients_are_the_same(agreement: Agreement, name: str) -> None:
    found = agreement[name]
    assert found["float64"]["loss"] < 1e-9
    assert found["float64"]["gradients"] < 1e-6
    assert found["float32"]["loss"] < 1e-4


@pytest.mark.parametrize("name", MODELS)
def test_in_single_precision_they_are_the_same_where_nothing_is_normalised_by_the_batch(
    agreement: Agreement, name: str
) -> None:
    """The median, since in some batches a unit at zero is active in only one framework."""
    found = agreement[name]["fixed"]
    assert max(each["loss"] for each in found) < 1e-4
    assert statistics.median(each["gradients"] for each in found) < 1e-4, found


@pytest.mark.parametrize("name", MODELS)
def test_in_single_precision_they_differ_as_one_framework_from_the_truth(
    agreement: Agreement, name: str
) -> None:
    """After many layers of batch normalisation, gradients are accurate to two digits only."""
    found = agreement[name]
    assert found["float32"]["gradients"] < max(1e-4, 3 * found["own"])
