"""The benchmarks of published models on image files, in their containers."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import step_files
from image_programs import run_python

from argosy_images.engines.models import Bind, Outcome
from argosy_images.store.store import Store

pytestmark = [pytest.mark.thorough, pytest.mark.container]

MAKE = """
import numpy, pathlib
from PIL import Image
random = numpy.random.default_rng(1)
kinds = [("RGB", "jpg"), ("L", "JPEG"), ("CMYK", "jpg"), ("RGB", "png"), ("RGBA", "png"), ("P", "png")]
for number in range(24):
    mode, suffix = kinds[number % len(kinds)]
    sides = random.integers(20, 200, 2)
    pixels = numpy.full((*sides, 3), 100 * (number % 3), "uint8")
    path = pathlib.Path(f"images/class {number % 3}/{number}.{suffix}")
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).convert(mode).save(path)
pathlib.Path("broken/a").mkdir(parents=True)
for number in range(4):
    pathlib.Path(f"broken/a/{number}.jpg").write_bytes(b"no image")
"""
FRAMEWORKS = ("torch", "tensorflow")
# The model with the fastest graph construction in TensorFlow, at its smallest size.
SMALL = ("--model", "alexnet", "--image-size", "96", "--batch-size", "4", "--classes", "3")

Benchmark = Callable[..., tuple[Outcome, str]]


@pytest.fixture(scope="module")
def pictures(
    project_store: Store, roots: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Make folders of images, and of files that are not images."""
    folder = tmp_path_factory.mktemp("pictures")
    job = Bind(folder, "/job", writable=True)
    outcome, said = run_python(project_store, roots["torch"], ("-c", MAKE), job)
    assert outcome.status == 0, said
    return folder


@pytest.fixture
def benchmark(python: Benchmark, pictures: Path, tmp_path: Path) -> Benchmark:
    """Return a function that runs a framework's benchmark beside the pictures."""
    shutil.copytree(pictures, tmp_path, dirs_exist_ok=True)

    def run(framework: str, *options: str) -> tuple[Outcome, str]:
        return python(framework, f"/workloads/{framework}/benchmark.py", *SMALL, *options)

    return run


@pytest.mark.slow
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_it_trains_on_them_and_the_wait_for_data_is_in_the_steps(
    benchmark: Benchmark, tmp_path: Path, framework: str
) -> None:
    outcome, said = benchmark(framework, "--images", "images", "--steps", "12", "--warm-up", "2")
    assert outcome.status == 0, said
    steps = [*step_files.all_steps(tmp_path / "rank-0.steps")]
    assert len(steps) == 14
    assert all(step.phases["data"] >= 0 for step in steps)
    # The first batch waits for the loaders' start.
    assert steps[0].phases["data"] > 0.01


@pytest.mark.parametrize(
    ("framework", "folder", "problem"),
    [
        # Both frameworks list the folder by one module; tests/unit/workloads tests its other errors.
        ("torch", "nowhere", "--images nowhere: nowhere: No such file or directory"),
        ("torch", "broken", "jpg cannot be read as an image: "),
        ("tensorflow", "broken", "jpg cannot be read as an image: "),
    ],
)
def test_what_cannot_be_read_is_one_line(
    benchmark: Benchmark, framework: str, folder: str, problem: str
) -> None:
    outcome, said = benchmark(framework, "--images", folder)
    assert outcome.status == 1
    assert problem in said.splitlines()[-1], said


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_batch_that_memory_cannot_hold_is_one_line(benchmark: Benchmark, framework: str) -> None:
    # The images would take three terabytes; their labels, made first, a quarter of a gigabyte.
    outcome, said = benchmark(framework, "--batch-size", "30000000")
    assert outcome.status == 1
    assert said.splitlines()[-1].startswith("--batch-size 30000000 does not fit into "), said
