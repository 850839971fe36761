"""Stand-in for proot: udocker runs `python -m argosy_images.udocker_repository.proot STORE ARGUMENT…`.

Containers of frozen images are run by one of Argosy's engines, so that nothing can write to the image: by
an isolating engine if this host has one, else by proot. All other calls go to proot.
"""

import os
import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from argosy_common.errors import ArgosyError
from argosy_images.engines import container, proot
from argosy_images.engines.choice import engine_of_host
from argosy_images.engines.models import ISOLATING_ENGINES, Bind, Container
from argosy_images.store.store import Store

NOT_STARTED = 125
"""Exit status for a container that did not start, as in podman and Docker."""

_WITH_VALUE = ("-b", "-w", "-k", "-i", "-q", "-p", "-r", "-v")
"""Options of proot with a value, as written by udocker."""

_GIVEN = (
    *("/dev", "/proc", "/sys", "/lib/modules"),
    *("/etc/resolv.conf", "/etc/host.conf", "/etc/hosts"),
)
"""Mounts that Argosy's engines provide themselves."""


def main(store: Store, arguments: Sequence[str]) -> int:
    """Run the container of proot's arguments, and return its exit status."""
    try:
        if "-r" in arguments:
            asked = described(store, arguments, os.environ)
            if asked.root.is_relative_to(store.path / "roots"):
                return container.attach(store, replace(asked, engine=_engine(store, asked)))
        command = [*proot.started(proot.find(store)), *_without_kernel(arguments)]
        os.execv(command[0], command)
    except ArgosyError as problem:
        print(f"argosy: {problem}", file=sys.stderr)
        return NOT_STARTED


def _without_kernel(arguments: Sequence[str]) -> Iterator[str]:
    """Drop `-k` if it names this kernel: with `-k`, proot 5.1.0 breaks fstat(2)."""
    rest = iter(arguments)
    for argument in rest:
        if argument != "-k":
            yield argument
        elif (release := next(rest, "")) != platform.release():
            yield from ("-k", release)


def described(store: Store, arguments: Sequence[str], environment: Mapping[str, str]) -> Container:
    """Parse proot's arguments, with a root (`-r`), as written by udocker."""
    found: dict[str, str] = {}
    binds: list[str] = []
    command: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        if argument == "-b":
            binds.append(next(rest, ""))
        elif argument in _WITH_VALUE:
            found[argument] = next(rest, "")
        elif not argument.startswith("-"):
            command = [argument, *rest]
    return Container(
        Path(found["-r"]).resolve(),
        command,
        binds=[*_binds(store, binds)],
        environment={
            name: value for name, value in environment.items() if not name.startswith("PROOT_")
        },
        workdir=found.get("-w", "/"),
        # udocker sets this variable in its mode P2.
        engine="proot-ptrace" if "PROOT_NO_SECCOMP" in environment else "proot",
    )


def _engine(store: Store, asked: Container) -> str:
    """Return this host's engine if it isolates, else proot in udocker's mode.

    With proot, programs could change modes and times of the image's files; without Landlock, their content.
    """
    engine = engine_of_host(store)
    return engine if engine in ISOLATING_ENGINES else asked.engine


def _binds(store: Store, volumes: Sequence[str]) -> Iterator[Bind]:
    """Yield the user's volumes; volumes that contain the store, or are in it, are read-only."""
    for volume in volumes:
        source, _, target = volume.partition(":")
        if (target or source) not in _GIVEN:
            place = Path(source).resolve()
            apart = not (place.is_relative_to(store.path) or store.path.is_relative_to(place))
            yield Bind(place, target or source, apart)


if __name__ == "__main__":
    sys.exit(main(Store(Path(sys.argv[1])), sys.argv[2:]))
