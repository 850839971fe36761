"""A small root file system with the host's own shell, for trials of engines.

Engines under trial may not isolate, so an image's shell could do harm or influence the choice.
"""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from argosy_common.disk import remove_tree
from argosy_common.errors import ArgosyError
from argosy_images.rootfs.freeze import make_frozen
from argosy_images.rootfs.layers import Layer
from argosy_images.store.scratch import private_folder
from argosy_images.store.store import Store

SHELL = Path("/bin/sh")

MEMORY = Path("/dev/shm")

_LIBRARY = re.compile(r"^\s*(?:\S+ => )?(/\S+)(?: \(0x[0-9a-f]+\))?$", re.MULTILINE)
"""Matches `libc.so.6 => /lib/libc.so.6 (0x…)` and `/lib64/ld-linux-x86-64.so.2 (0x…)`."""


@contextmanager
def trusted_root(store: Store) -> Iterator[Path]:
    """Make a temporary frozen tree with only /bin/sh and /etc/passwd.

    Raises:
        ArgosyError: if the host has no shell, or no folder that allows programs.
    """
    if not SHELL.exists():
        raise ArgosyError(f"{SHELL}: this host lacks this shell, so engines cannot be tested")
    with private_folder(_writable_place(store)) as (folder, _):
        try:
            make_frozen([Layer(_shell_files(folder / "files"))], folder / "root")
            yield folder / "root"
        finally:
            remove_tree(folder / "root")


def _shell_files(tree: Path) -> Path:
    _copy(SHELL, tree / "bin/sh")
    for library in _libraries(SHELL):
        _copy(Path(library), Path(f"{tree}{library}"))
    (tree / "etc").mkdir(exist_ok=True)
    (tree / "etc/passwd").write_text("root:x:0:0:root:/:/bin/sh\n", encoding="ascii")
    return tree


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(0o555)


def _libraries(program: Path) -> list[str]:
    """Return the shared libraries and the loader of a program; empty if it is static."""
    ldd = shutil.which("ldd")
    if ldd is None:
        return []
    # The user's variables may select other libraries.
    done = subprocess.run(
        [ldd, program], env={"PATH": os.defpath}, capture_output=True, text=True, errors="replace"
    )
    return _LIBRARY.findall(done.stdout) if done.returncode == 0 else []


def _writable_place(store: Store) -> Path:
    """Return a folder that allows programs: some sites mount /tmp or the store with noexec."""
    with suppress(OSError):
        store.engines.mkdir(exist_ok=True, parents=True, mode=0o700)
    places = (Path(tempfile.gettempdir()), store.engines, MEMORY)
    for place in places:
        if os.access(place, os.W_OK) and not os.statvfs(place).f_flag & os.ST_NOEXEC:
            return place
    names = ", ".join(map(str, places))
    raise ArgosyError(
        f"engines cannot be tested on {os.uname().nodename}: programs cannot be started from {names} "
        "(noexec)",
        "set TMPDIR to a folder that allows programs, or name images.engine in site.yaml",
    )
