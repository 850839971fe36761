"""`make bench-overhead`: training in a container beside the same wheels without one, on one pinned core.

Both run the digits with the files of the frozen image torch-cpu, from the C library to PyTorch: in a
container, and started by the image's own loader on the bare host. They take turns (`taking_turns.py`).
"""

import json
import subprocess
import sys
from pathlib import Path

from taking_turns import measured_pairs, pin_to_a_core, report

from argosy.images import container
from argosy.images.container import Bind, Container
from argosy.images.engines import engine_of_host
from argosy.images.lockfile import read_lock
from argosy.images.store import Store

ROOT = Path(__file__).parents[1]
RUNTIME = ROOT / "workflow/src/argosy/runtime/python"
WORKLOADS = ROOT / "containers/workloads"
PACKAGES = "opt/venv/lib/python3.11/site-packages"
PAIRS = 20
EPOCHS = 1000
SETTINGS = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "LANG": "C.UTF-8", "HOME": "/tmp"}


def main() -> int:
    """Measure, print the table and, last, the figures as JSON."""
    store = Store.of_project(ROOT)
    root = store.root(read_lock(ROOT / "resources/images/torch-cpu/image.lock").digest)
    pin_to_a_core()
    engine = engine_of_host(store, root)
    pairs = measured_pairs(
        {
            "container": lambda folder: in_container(store, root, engine, folder),
            "native": lambda folder: natively(root, folder),
        },
        PAIRS,
    )
    print(f"engine {engine}")
    print(json.dumps({"engine": engine, **report(pairs, "container", "native")}))
    return 0


def in_container(store: Store, root: Path, engine: str, folder: Path) -> None:
    """Train in a container."""
    inside = Container(
        root,
        ["python3", *arguments("/workloads")],
        binds=[Bind(WORKLOADS, "/workloads"), Bind(RUNTIME, "/argosy"), Bind(folder, "/job")],
        environment={
            **SETTINGS,
            "PATH": "/opt/venv/bin:/usr/bin:/bin",
            "PYTHONPATH": "/argosy",
            "ARGOSY_STEPS_FILE": "/job/steps.jsonl",
        },
        engine=engine,
        workdir="/job",
    )
    container.run(store, inside, lambda _: None)


def natively(root: Path, folder: Path, recorder: Path = RUNTIME) -> None:
    """Train without a container, with the module `argosy_steps` of the folder `recorder`."""
    subprocess.run(
        training_command(root),
        cwd=folder,
        env={
            **training_environment(root, recorder),
            "ARGOSY_STEPS_FILE": str(folder / "steps.jsonl"),
        },
        stdout=subprocess.DEVNULL,
        check=False,
    )


def training_command(root: Path) -> list[str]:
    """The training by the files of the image `root`, without a container."""
    loader = next(path for path in root.glob("lib*/ld-linux-*.so.*"))
    libraries = ":".join(map(str, root.glob("usr/lib/*-linux-gnu")))
    python = [str(loader), "--library-path", libraries, str(root / "usr/bin/python3")]
    return [*python, *arguments(str(WORKLOADS))]


def training_environment(root: Path, recorder: Path) -> dict[str, str]:
    """Its variables, with the module `argosy_steps` of the folder `recorder`."""
    return {
        **SETTINGS,
        "PATH": "/usr/bin:/bin",
        "PYTHONHOME": str(root / "usr"),
        "PYTHONPATH": f"{recorder}:{RUNTIME}:{root / PACKAGES}",
    }


def arguments(workloads: str) -> list[str]:
    """The program, the same for both."""
    # No checkpoints: it would be the disk that is timed.
    options = {"--epochs": EPOCHS, "--warm-up-epochs": 1, "--checkpoint-every": EPOCHS}
    words = [str(word) for option in options.items() for word in option]
    return [f"{workloads}/torch/digits.py", *words]


if __name__ == "__main__":
    sys.exit(main())
