"""Command lines of each engine for a container.

Argosy starts runc, crun and proot directly: faster than by udocker, and with a read-only root.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from argosy_common.errors import ArgosyError
from argosy_images.engines import runc
from argosy_images.engines.models import (
    GUEST_DIR,
    OWN_ENGINES,
    UNISOLATED_ENGINES,
    Bind,
    Container,
)
from argosy_images.engines.runc import mount_flags, mounts_below
from argosy_images.store.store import Store
from argosy_images.tools import Tools

# The first process of the container. It merges stdout and stderr, since runc does not keep their order.
# It forwards signals, which a first process ignores by default, and writes the exit status, since
# engines lose it. It opens the status file first, before the command could replace it with a FIFO.
_FIRST_PROCESS = """
exec 2>&1 3> /run/argosy/status
: > /run/argosy/began
trap 'kill -TERM "$command" 2>/dev/null' TERM HUP INT
"$@" 3>&- & command=$!
while :; do
    wait "$command"; status=$?
    kill -0 "$command" 2>/dev/null || break
done
echo "$status" >&3
exit "$status"
"""


@dataclass(frozen=True)
class Invocation:
    """An engine's command line and environment; the container's environment is separate."""

    command: list[str | Path]
    environment: Mapping[str, str]


def invocation(store: Store, container: Container, folder: Path) -> Invocation:
    """Return the command line of the container's engine; engines read their files from `folder`.

    Raises:
        ArgosyError: if the engine is missing.
    """
    if container.engine in OWN_ENGINES:
        return _by_runc(store, container, folder)
    if container.engine in UNISOLATED_ENGINES:
        return _by_proot(store, container, folder)
    return _by_apptainer(container, folder)


def is_ours(bind: Bind) -> bool:
    """Return whether the mount goes below GUEST_DIR, which every container has."""
    return bind.target.startswith(f"{GUEST_DIR}/")


def _by_runc(store: Store, container: Container, folder: Path) -> Invocation:
    program = _program(store, container.engine)
    bundle = subfolder(folder, "bundle")
    specification = _specification(container, folder)
    specification = replace(
        specification,
        mounts=[*specification.mounts, *_shields(specification.root, container.binds)],
    )
    (bundle / "config.json").write_text(json.dumps(specification.content()), encoding="utf-8")
    # unshare's death kills the first process of these namespaces, and so all others.
    command = [
        *("unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child"),
        *("--mount-proc", "--propagation", "slave"),
        *runc.command(program, bundle),
    ]
    return Invocation(command, Tools(store).runtime_environment())


def _by_proot(store: Store, container: Container, folder: Path) -> Invocation:
    # Imported here: each node waits for the modules it loads from the shared file system.
    from argosy_images.engines import proot

    command = proot.command(
        proot.ready(store, subfolder(folder, "loader")),
        _specification(container, folder),
        subfolder(folder, "proot"),
        traces_all=container.engine == "proot-ptrace",
    )
    return Invocation(command, {"PATH": os.defpath})


def _by_apptainer(container: Container, folder: Path) -> Invocation:
    from argosy_images.engines import apptainer

    program = apptainer.find()
    if program is None:
        raise ArgosyError("apptainer is missing", "ask the site to install it")
    specification = _specification(container, folder)
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        **dict(apptainer.variables(program, container.environment)),
    }
    return Invocation(apptainer.command(program, specification), environment)


def _program(store: Store, name: str) -> Path:
    program = Tools(store).find(name)
    if program is None:
        raise ArgosyError(
            f"{name} is missing", "make the container tools available with: argosy setup"
        )
    return program


def _specification(container: Container, folder: Path) -> runc.Specification:
    return runc.Specification(
        # runc refuses a root path with symbolic links, such as a store on a larger disk.
        container.root.resolve(),
        _arguments(container),
        container.environment,
        container.workdir,
        [
            *(mount for bind in _volumes(container, folder) for mount in _mounts(bind)),
            *runc.devices(),
        ],
        writable=False,
        # What the kernel wants of a root that calls itself by another id.
        capabilities=("CAP_SETFCAP",) if container.as_user else (),
        seccomp=runc.no_setuid(),
        shows_root=not container.as_user,
        terminal=container.attached and os.isatty(0),
    )


def _arguments(container: Container) -> list[str]:
    if container.attached:
        return list(container.command)
    return ["/bin/sh", "-c", _FIRST_PROCESS, "argosy", *container.command]


def _volumes(container: Container, folder: Path) -> list[Bind]:
    for bind in filter(is_ours, container.binds):
        (folder / "guest" / bind.target.removeprefix(f"{GUEST_DIR}/")).mkdir(exist_ok=True)
    own = [Bind(folder / "guest", GUEST_DIR, True), Bind(subfolder(folder, "tmp"), "/tmp", True)]
    return [*own, *container.binds]


def _mounts(bind: Bind) -> Iterator[runc.Mount]:
    """Yield runc's mounts of a folder. `ro` covers one mount only, so mounts below it are added."""
    source = bind.source.absolute()
    yield runc.Mount(source, bind.target, bind.writable, mount_flags(source))
    if not bind.writable:
        yield from mounts_below(source.resolve(), bind.target)


def _shields(root: Path, binds: Sequence[Bind]) -> Iterator[runc.Mount]:
    """Yield mounts that keep the image read-only if a mounted folder contains it.

    runc first mounts the image upon itself, writable until all other mounts are done. A mount of a folder
    above it includes that writable mount.
    """
    for bind in binds:
        source = bind.source.resolve()
        if root.is_relative_to(source):
            place = root.relative_to(source)
            yield runc.Mount(root, f"{bind.target}/{place}", False, mount_flags(root), alone=True)


def subfolder(folder: Path, name: str) -> Path:
    """Return a subfolder; make it if missing."""
    path = folder / name
    path.mkdir(exist_ok=True)
    return path
