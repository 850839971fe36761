"""Run a shell in a frozen image."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from argosy_common.errors import ArgosyError
from argosy_images.engines import container
from argosy_images.engines.choice import caution, engine_of_host
from argosy_images.engines.models import DEFAULT_ENVIRONMENT, Bind, Container
from argosy_images.rootfs.rooted import inside
from argosy_images.store.lockfile import ImageLock
from argosy_images.store.store import Store

SHELLS = ("/bin/bash", "/bin/sh")


def look_inside(
    store: Store,
    lock_path: Path,
    workloads: Path,
    command: Sequence[str],
    say: Callable[[str], None],
) -> int:
    """Run a shell, or the command, in a locked image, and return its exit status.

    The image is read-only, /tmp is empty and private, and `workloads` is mounted at /workloads. The program
    gets this process's terminal or standard input.

    Raises:
        ArgosyError: if the image is not built, has no shell, or no engine works on this host.
    """
    lock = ImageLock.read(lock_path)
    root = store.root(lock.digest)
    if not root.is_dir():
        raise ArgosyError(
            f"{root}: the image is missing", f"build it with: argosy image build {lock.name}"
        )
    engine = engine_of_host(store)
    if weakness := caution(engine):
        say(weakness)
    shown = Container(
        root,
        command or [_shell(root, lock.name)],
        binds=[Bind(workloads, "/workloads")],
        environment={
            **DEFAULT_ENVIRONMENT,
            "TERM": os.environ.get("TERM", "dumb"),
            **lock.config.environment,
        },
        workdir=lock.config.workdir,
        engine=engine,
    )
    with store.uses.during(
        lock.digest, f"argosy image shell {lock.name} of {lock_path.absolute()}"
    ):
        return container.attach(store, shown)


def _shell(root: Path, name: str) -> str:
    for shell in SHELLS:
        if os.path.lexists(inside(root, shell)):
            return shell
    raise ArgosyError(
        f"image {name} has no shell", f"name a program of it: argosy image shell {name} -- PROGRAM"
    )
