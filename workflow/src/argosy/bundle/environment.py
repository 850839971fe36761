"""What a machine without internet needs to set up Argosy: wheels of its packages, and the container tools.

`make setup` takes them from the unpacked bundle. They are of this machine's architecture and Python.
"""

import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

from argosy.bundle.contents import Member
from argosy.errors import ArgosyError
from argosy.images import Store, find_proot, machine

WHEELS, TOOLS = "wheels", "container-tools.tar.gz"
LOCK = "requirements.lock"
_TOOL_FOLDERS = ("bin", "lib", "doc")
_BUILD_BACKEND = "setuptools>=77"
"""As pyproject.toml names it: Argosy itself is installed from its source."""


def of_environment(project: Path, work: Path, say: Callable[[str], None]) -> Iterator[Member]:
    """Yield the wheels of the pinned packages, and udocker's tools as a tarball, both made below `work`.

    Raises:
        ArgosyError: when a package cannot be had, or the container tools are not there.
    """
    if not (project / LOCK).is_file():
        raise ArgosyError(f"there is no {LOCK} here", "bundle without --environment")
    folder = work / WHEELS
    say("fetching the packages of Argosy's environment")
    _wheels(project, folder, ["--require-hashes", "--requirement", str(project / LOCK)])
    _wheels(project, folder, [_BUILD_BACKEND])
    for path in sorted(folder.glob("*.whl")):
        yield _member(path, work)
    yield _member(_tools(Store.of_project(project), work / TOOLS), work)


def _wheels(project: Path, folder: Path, wanted: list[str]) -> None:
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "wheel",
        "--quiet",
        "--use-pep517",
    ]
    command = [*pip, "--no-deps", "--wheel-dir", str(folder), *wanted]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True)
    if done.returncode:
        said = (done.stderr.strip() or "it said nothing").splitlines()[-1]
        raise ArgosyError(f"the packages of {LOCK} cannot be had: pip: {said}")


def _tools(store: Store, target: Path) -> Path:
    """Write the store's container tools in the layout that udocker installs."""
    if not (store.udocker / "lib" / "VERSION").is_file():
        raise ArgosyError(
            f"{store.udocker}: the container tools are not there", "run: argosy setup"
        )
    with tarfile.open(target, "w:gz") as archive:
        for name in _TOOL_FOLDERS:
            if (store.udocker / name).is_dir():
                archive.add(store.udocker / name, f"udocker_dir/{name}")
        # Of the distribution's packages, it is elsewhere; nodes without user namespaces need it.
        proot = find_proot(store)
        if proot and not proot.is_relative_to(store.udocker):
            archive.add(proot.resolve(), f"udocker_dir/bin/proot-{machine()}")
    return target


def _member(path: Path, top: Path) -> Member:
    return Member(path.relative_to(top).as_posix(), path, top, path.stat().st_size, False)
