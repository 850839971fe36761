"""One step of a model in PyTorch and in TensorFlow, of the same weights and images."""

import json
from pathlib import Path
from typing import Any

import pytest

from argosy.images.builder.builder import build_image
from argosy.images.engines import container
from argosy.images.engines.models import Bind, Container
from argosy.images.store.store import Store

pytestmark = [pytest.mark.container, pytest.mark.slow]

MODELS = ("resnet50", "googlenet", "inception_v3")
SIZE = 96

Agreement = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def agreement(
    project: Path,
    project_store: Store,
    torch_digest: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Agreement:
    """How far TensorFlow's are off PyTorch's, by model and precision."""
    folder = tmp_path_factory.mktemp("step")
    image = project / "containers" / "tensorflow-cpu"
    other = build_image(project_store, image, folder / "image.lock", folder / "build.log").digest

    def run(digest: str, program: str) -> str:
        printed: list[bytes] = []
        inside = Container(
            project_store.root(digest),
            ["python3", f"/job/{program}", "/data", str(SIZE), *MODELS],
            binds=[
                Bind(project / "containers/workloads", "/workloads"),
                Bind(project / "tests/containers/programs", "/job"),
                Bind(folder, "/data", writable=True),
            ],
            environment={
                "PATH": "/opt/venv/bin:/usr/bin:/bin",
                "TF_USE_LEGACY_KERAS": "1",
                "TF_CPP_MIN_LOG_LEVEL": "3",
                "OMP_NUM_THREADS": "2",
                "HOME": "/tmp",
            },
            workdir="/",
        )
        outcome = container.run(project_store, inside, printed.append)
        said = b"".join(printed).decode()
        assert outcome.status == 0, said
        return said

    run(torch_digest, "torch_gradients.py")
    found: Agreement = json.loads(run(other, "tensorflow_gradients.py").splitlines()[-1])
    return found


@pytest.mark.parametrize("name", MODELS)
def test_loss_and_gradients_are_the_same(agreement: Agreement, name: str) -> None:
    found = agreement[name]
    assert found["float64"]["loss"] < 1e-9
    assert found["float64"]["gradients"] < 1e-6
    assert found["float32"]["loss"] < 1e-4


@pytest.mark.parametrize("name", MODELS)
def test_in_single_precision_they_differ_as_one_framework_from_the_truth(
    agreement: Agreement, name: str
) -> None:
    """Behind many layers of batch normalisation the gradients of either have two digits only."""
    found = agreement[name]
    assert found["float32"]["gradients"] < max(1e-4, 3 * found["own"])
