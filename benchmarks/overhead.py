"""`make bench-overhead`: training in a container beside the same wheels without one, on one pinned core.

Both run the digits with the files of the frozen image torch-cpu, from the C library to PyTorch: in a
container, and started by the image's own loader on the bare host. They take turns (`taking_turns.py`).
An engine may be named, which the host would not choose: `make bench-overhead ENGINE=proot`.
"""

import json
import subprocess
import sys
from functools import partial
from pathlib import Path

from taking_turns import measured_pairs, pin_to_a_core, report, side_by_side

from argosy.images.engines import container
from argosy.images.engines.choice import engine_of_host
from argosy.images.engines.models import Bind, Container
from argosy.images.store.lockfile import read_lock
from argosy.images.store.store import Store

ROOT = Path(__file__).parents[1]
RUNTIME = ROOT / "workflow/src/argosy/runtime/python"
WORKLOADS = ROOT / "containers/workloads"
DIGITS = "torch/digits.py"
PACKAGES = "opt/venv/lib/python3.11/site-packages"
PAIRS = 20
EPOCHS = 1000
SETTINGS = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "LANG": "C.UTF-8", "HOME": "/tmp"}


def main() -> int:
    """Measure, print the table and, last, the figures as JSON."""
    store = Store.of_project(ROOT)
    root = store.root(read_lock(ROOT / "resources/images/torch-cpu/image.lock").digest)
    pin_to_a_core()
    engine = sys.argv[1] if len(sys.argv) > 1 else engine_of_host(store)
    ways = {
        "container": lambda folder: in_container(store, root, engine, folder),
        "native": lambda folder: natively(root, folder),
    }
    pairs = measured_pairs(partial(side_by_side, ways), PAIRS)
    print(f"engine {engine}")
    print(json.dumps({"engine": engine, **report(pairs, "container", "native")}))
    return 0


def in_container(store: Store, root: Path, engine: str, folder: Path) -> None:
    """Train in a container."""
    inside = Container(
        root,
        ["python3", f"/workloads/{DIGITS}", *options()],
        binds=[
            Bind(WORKLOADS, "/workloads"),
            Bind(RUNTIME, "/argosy"),
            Bind(folder, "/job", writable=True),
        ],
        environment={
            **SETTINGS,
            "PATH": "/opt/venv/bin:/usr/bin:/bin",
            "PYTHONPATH": "/argosy",
            "ARGOSY_STEPS_FILE": "/job/rank-0.steps",
        },
        engine=engine,
        workdir="/job",
    )
    container.run(store, inside, lambda _: None)


def natively(root: Path, folder: Path) -> None:
    """Train without a container."""
    subprocess.run(
        training_command(root, WORKLOADS / DIGITS),
        cwd=folder,
        env={
            **training_environment(root),
            "ARGOSY_STEPS_FILE": str(folder / "rank-0.steps"),
        },
        stdout=subprocess.DEVNULL,
        check=False,
    )


def training_command(root: Path, program: Path) -> list[str]:
    """The training by the files of the image `root`, without a container."""
    loader = next(path for path in root.glob("lib*/ld-linux-*.so.*"))
    libraries = ":".join(map(str, root.glob("usr/lib/*-linux-gnu")))
    python = [str(loader), "--library-path", libraries, str(root / "usr/bin/python3")]
    return [*python, str(program), *options()]


def training_environment(root: Path) -> dict[str, str]:
    """Its variables."""
    return {
        **SETTINGS,
        "PATH": "/usr/bin:/bin",
        "PYTHONHOME": str(root / "usr"),
        "PYTHONPATH": f"{RUNTIME}:{root / PACKAGES}",
    }


def options() -> list[str]:
    """The program's, the same for both."""
    # No checkpoints: it would be the disk that is timed.
    given = {"--epochs": EPOCHS, "--warm-up-epochs": 1, "--checkpoint-every": EPOCHS}
    return [str(word) for option in given.items() for word in option]


if __name__ == "__main__":
    sys.exit(main())
