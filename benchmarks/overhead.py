"""`make bench-overhead`: training in a container beside the same wheels without one, on one pinned core.

Both run the same program with the files and variables of a frozen image, from the C library to the
framework: in a container, and as `argosy image native` has it. They take turns (`taking_turns.py`). The
digits are trained by PyTorch, or another program; an engine may be named that the host would not choose:
`make bench-overhead PROGRAM=resnet50-tensorflow ENGINE=proot PAIRS=20`. The image of the program has to be
built, and for downscaling the weather as well (config/downscaling.yaml).
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from taking_turns import (
    Turns,
    argument_parser,
    measured_pairs,
    pin_to_a_core,
    report,
    side_by_side,
)

from argosy_images.engines import container
from argosy_images.engines.choice import engine_of_host
from argosy_images.engines.models import Bind, Container
from argosy_images.native import make_environment
from argosy_images.store.lockfile import ImageLock
from argosy_images.store.store import Store

ROOT = Path(__file__).parents[1]
RUNTIME = ROOT / "workflow/src/argosy/runtime"
WORKLOADS = ROOT / "containers/workloads"
SETTINGS = {
    **{f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL")},
    **{f"TF_NUM_{name}_THREADS": "1" for name in ("INTEROP", "INTRAOP")},
    "LANG": "C.UTF-8",
    "HOME": "/tmp",
}
TRAINING_ENVIRONMENT = {**SETTINGS, "PATH": "/usr/bin:/bin", "PYTHONPATH": str(RUNTIME / "python")}
"""Of a training without a container, but for the image's own variables."""


@dataclass(frozen=True)
class Program:
    """A program below containers/workloads, with options that let it train until it is ended.

    `{workloads}` in an option stands for that folder.
    """

    image: str
    path: str
    options: Mapping[str, object]
    turns: Turns


DIGITS = {"--epochs": 1000, "--warm-up-epochs": 1}
RESNET = {"--model": "resnet50", "--image-size": 64, "--batch-size": 1, "--steps": 100_000}
WEATHER = {"--data": "{workloads}/data/weather", "--epochs": 10_000}
PROGRAMS = {
    # No checkpoints: it would be the disk that is timed.
    "digits": Program(
        "torch-cpu", "torch/digits.py", {**DIGITS, "--checkpoint-every": 1000}, Turns()
    ),
    "digits-tensorflow": Program("tensorflow-cpu", "tensorflow/digits.py", DIGITS, Turns()),
    "resnet50": Program("torch-cpu", "torch/benchmark.py", RESNET, Turns(8, 2.0)),
    "resnet50-tensorflow": Program(
        "tensorflow-cpu", "tensorflow/benchmark.py", RESNET, Turns(8, 2.0)
    ),
    "downscaling": Program(
        "downscaling-torch", "downscaling/torch_training.py", WEATHER, Turns(8, 2.0)
    ),
    "downscaling-tensorflow": Program(
        "downscaling-tensorflow", "downscaling/tensorflow_training.py", WEATHER, Turns(8, 2.0)
    ),
}


def main() -> int:
    """Measure, print the table and, last, the figures as JSON."""
    parser = argument_parser(__doc__, PROGRAMS, "--pairs", 20)
    parser.add_argument("--engine")
    options = parser.parse_args()
    program = PROGRAMS[options.program]
    store = Store.of_project(ROOT)
    lock = lock_of(program)
    pin_to_a_core()
    engine = options.engine or engine_of_host(store)
    ways = {
        "container": lambda folder: in_container(store, lock, (engine, program), folder),
        "native": lambda folder: natively(store, lock, program, folder),
    }
    pairs = measured_pairs(partial(side_by_side, ways, asked=program.turns), options.pairs)
    print(f"{options.program}, engine {engine}")
    figures = report(pairs, "container", "native")
    print(json.dumps({"program": options.program, "engine": engine, **figures}))
    return 0


def lock_of(program: Program) -> ImageLock:
    """What the program's image is, as built for this project."""
    return ImageLock.read(ROOT / f"resources/images/{program.image}/image.lock")


def in_container(store: Store, lock: ImageLock, asked: tuple[str, Program], folder: Path) -> None:
    """Train in a container of an engine."""
    engine, program = asked
    inside = Container(
        store.root(lock.digest),
        ["python3", f"/workloads/{program.path}", *words(program, Path("/workloads"))],
        binds=[
            Bind(WORKLOADS, "/workloads"),
            Bind(RUNTIME, "/argosy"),
            Bind(folder, "/job", writable=True),
        ],
        environment={
            **lock.config.environment,
            **SETTINGS,
            "PYTHONPATH": "/argosy/python",
            "ARGOSY_STEPS_FILE": "/job/rank-0.steps",
        },
        engine=engine,
        workdir="/job",
    )
    container.run(store, inside, lambda _: None)


def natively(
    store: Store, lock: ImageLock, program: Program, folder: Path, **variables: str
) -> None:
    """Train without a container; `variables` win over the image's."""
    subprocess.run(
        native_training(store, lock, program, folder),
        cwd=folder,
        env={
            **TRAINING_ENVIRONMENT,
            **variables,
            "ARGOSY_STEPS_FILE": str(folder / "rank-0.steps"),
        },
        stdout=subprocess.DEVNULL,
        check=False,
    )


def native_training(store: Store, lock: ImageLock, program: Program, folder: Path) -> list[str]:
    """Make the environment of an image in `folder`; return the command that trains by it."""
    python = make_environment(store, lock, folder / "native")
    return [str(python), str(WORKLOADS / program.path), *words(program, WORKLOADS)]


def words(program: Program, workloads: Path) -> list[str]:
    """Return the program's options, the same for both."""
    listed = [str(word) for option in program.options.items() for word in option]
    return [word.format(workloads=workloads) for word in listed]


if __name__ == "__main__":
    sys.exit(main())
