"""Programs of the project's images, run by themselves: no job, no agent."""

from collections.abc import Callable, Sequence
from pathlib import Path

from argosy.images.builder.builder import build_image
from argosy.images.engines import container
from argosy.images.engines.models import Bind, Container, Outcome
from argosy.images.store.store import Store

PROJECT = Path(__file__).parents[2]
VARIABLES = {
    "PATH": "/opt/venv/bin:/usr/bin:/bin",
    "PYTHONPATH": "/argosy",
    "HOME": "/tmp",
    "OMP_NUM_THREADS": "1",
    "TF_USE_LEGACY_KERAS": "1",
    "TF_CPP_MIN_LOG_LEVEL": "3",
}


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
    printed: list[bytes] = []
    inside = Container(
        root,
        ["python3", *arguments],
        binds=[
            Bind(PROJECT / "containers/workloads", "/workloads"),
            Bind(PROJECT / "workflow/src/argosy/runtime/python", "/argosy"),
            *binds,
        ],
        environment={**VARIABLES, **variables},
        workdir=binds[-1].target,
    )

    def hear(data: bytes) -> None:
        heard(data)
        printed.append(data)

    outcome = container.run(store, inside, hear)
    return outcome, b"".join(printed).decode()
