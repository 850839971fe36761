"""Slurm as Debian packages: where they are not installed, an ordinary user unpacks them."""

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

_FOLDER = Path(__file__).parents[3] / ".argosy" / "tools" / "slurm"
_PROGRAMS = {
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "sbatch": "slurm-client",
    "munged": "munge",
    "ip": "iproute2",
    "slurmdbd": "slurmdbd",
    "mariadbd": "mariadb-server",
}
# Slurm opens libpmix.so by this name, which only the developers' package has.
_LIBRARIES = ("libpmix2", "libpmix-dev")


def are_installed() -> bool:
    """Whether this machine has all of them."""
    path = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
    return all(shutil.which(name, path=path) for name in _PROGRAMS)


def fetch() -> str:
    """Unpack the packages once for this project: what went wrong, or nothing."""
    # The cluster's own programs start without the environment's packages.
    from filelock import FileLock

    from argosy_images.tools import unpack_packages

    if _unpacked().is_dir():
        return ""
    _FOLDER.mkdir(parents=True, exist_ok=True)
    with FileLock(_FOLDER / "lock"):
        if _unpacked().is_dir():
            return ""
        # Of an interrupted start.
        shutil.rmtree(_FOLDER / "packages", ignore_errors=True)
        print(f"Slurm: unpacking Debian's packages into {_FOLDER}", flush=True)
        problem = unpack_packages(_FOLDER, *_names())
        if not problem:
            [unpacked] = (_FOLDER / "packages").iterdir()
            _install(unpacked)
            unpacked.rename(_unpacked())
        return problem and f"Debian packages are missing ({' '.join(_names())}): {problem}"


def layers() -> dict[str, str]:
    """The folders of this machine over which the cluster lays a folder of the packages."""
    if are_installed():
        return {}
    return {f"/{name}": str(_unpacked() / name) for name in ("usr", "etc")}


def _install(root: Path) -> None:
    """Do what the system's package manager would: one folder of programs, and Debian's alternatives."""
    for old in ("bin", "sbin", "lib"):
        if (root / old).is_dir():
            shutil.copytree(root / old, root / "usr" / old, symlinks=True, dirs_exist_ok=True)
    for program in root.glob("usr/sbin/*-wlm"):
        program.with_name(program.name.removesuffix("-wlm")).symlink_to(program.name)
    (root / "etc" / "slurm").mkdir(parents=True, exist_ok=True)


def _unpacked() -> Path:
    return _FOLDER / "whole"


def _names() -> Iterable[str]:
    return (*_PROGRAMS.values(), *_LIBRARIES)
