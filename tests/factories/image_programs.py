"""Build images, and run programs in them without a job or agent."""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from argosy_images.builder.builder import build_image
from argosy_images.engines import container
from argosy_images.engines.models import Bind, Container, Outcome
from argosy_images.store.lockfile import ImageLock
from argosy_images.store.store import Store

PROJECT = Path(__file__).parents[2]
VARIABLES = {
    "PATH": "/opt/venv/bin:/usr/bin:/bin",
    "PYTHONPATH": "/argosy/python",
    "HOME": "/tmp",
    "OMP_NUM_THREADS": "1",
    "TF_USE_LEGACY_KERAS": "1",
    "TF_CPP_MIN_LOG_LEVEL": "3",
}


BASE = "FROM docker.io/library/debian:bookworm-slim"


def built(store: Store, folder: Path, text: str) -> ImageLock:
    """Build an image of this Containerfile; write image.lock and build.log beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "Containerfile").write_text(text)
    return build_image(store, folder, folder / "image.lock", folder / "build.log")


def contained(
    store: Store, inside: Container, heard: Callable[[bytes], object] = bool
) -> tuple[Outcome, str]:
    """Run a container; return result and output. `heard` receives the output as it is printed."""
    printed: list[bytes] = []

    def hear(data: bytes) -> None:
        heard(data)
        printed.append(data)

    outcome = container.run(store, inside, hear)
    return outcome, b"".join(printed).decode()


_RUN = """
import json, sys
from pathlib import Path
from argosy_images.engines import container
from argosy_images.engines.models import Bind, Container
from argosy_images.store.store import Store
store, root, engine, binds, command = json.loads(sys.argv[1])
binds = [Bind(Path(source), target, writable) for source, target, writable in binds]
path = {"PATH": "/opt/venv/bin:/usr/bin:/bin"}
inside = Container(Path(root), command, binds=binds, environment=path, engine=engine)
outcome = container.run(Store(Path(store)), inside, open(1, "wb", buffering=0).write)
sys.exit(outcome.status if outcome.status is not None else 100)
"""


def runner(
    store: Store, root: Path, engine: str, command: Sequence[str], binds: Sequence[Bind] = ()
) -> list[str]:
    """Return the command line of a process that runs a container and exits with its status."""
    described = [(str(bind.source), bind.target, bind.writable) for bind in binds]
    words = json.dumps([str(store.path), str(root), engine, described, command])
    return [sys.executable, "-c", _RUN, words]


def root_of(store: Store, name: str, folder: Path) -> Path:
    """Return the frozen tree of an image of containers/, built if missing; `folder` gets lock and log."""
    lock = build_image(
        store, PROJECT / "containers" / name, folder / f"{name}.lock", folder / f"{name}.log"
    )
    return store.root(lock.digest)


def run_python(
    store: Store,
    root: Path,
    arguments: Sequence[str],
    *binds: Bind,
    heard: Callable[[bytes], object] = bool,
    **variables: str,
) -> tuple[Outcome, str]:
    """Run Python in an image with /workloads and /argosy, as `contained` does.

    The working directory is the mount point of the last of `binds`.
    """
    inside = Container(
        root,
        ["python3", *arguments],
        binds=[
            Bind(PROJECT / "containers/workloads", "/workloads"),
            Bind(PROJECT / "workflow/src/argosy/runtime", "/argosy"),
            *binds,
        ],
        environment={**VARIABLES, **variables},
        workdir=binds[-1].target,
    )
    return contained(store, inside, heard)
