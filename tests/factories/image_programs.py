"""Images and their programs, built and run by themselves: no job, no agent."""

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
    """Build an image of this Containerfile; image.lock and build.log lie beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "Containerfile").write_text(text)
    return build_image(store, folder, folder / "image.lock", folder / "build.log")


def contained(
    store: Store, inside: Container, heard: Callable[[bytes], object] = bool
) -> tuple[Outcome, str]:
    """Run a container; how it ended and what it printed, which `heard` is given as it comes."""
    printed: list[bytes] = []

    def hear(data: bytes) -> None:
        heard(data)
        printed.append(data)

    outcome = container.run(store, inside, hear)
    return outcome, b"".join(printed).decode()


def root_of(store: Store, name: str, folder: Path) -> Path:
    """The frozen tree of an image of containers/, built if it is not; `folder` takes lock and log."""
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
    """Run Python in an image that sees /workloads and /argosy; how it ended and what it printed.

    The working directory is where the last of `binds` is mounted. `heard` is given what is printed, as it
    is.
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
