"""Create a folder with the Python of an image, for use on the host without a container.

The files stay in the frozen image. Scripts in the folder start them by the image's own loader, so that all
libraries, including the C library, are the image's. The folder looks like a virtual environment: Python
finds its packages through `pyvenv.cfg` above its program's folder (PEP 405).
"""

import re
import shlex
import stat
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from argosy_common.errors import ArgosyError
from argosy_common.files import replacing, write_text
from argosy_images.engines.models import DEFAULT_PATH
from argosy_images.rootfs.rooted import Names, Root
from argosy_images.store.lockfile import ImageLock
from argosy_images.store.store import Store

_DEFAULT = ("/lib64", "/usr/lib64", "/lib", "/usr/lib")
_CONFIGURATION = "/etc/ld.so.conf"
_MOST_CONFIGURATION_BYTES = 1 << 20
"""Bytes read of each configuration file of the loader (ld.so.conf)."""

_HEADERS = struct.Struct("<32xQ14xHH")
"""ELF header: offset, size and number of the program headers."""
_PART = struct.Struct("<I4xQ16xQ")
"""Program header: type, offset and size in the file."""
_INTERPRETER = 3
_MOST_NAME = 4096


def loader_of(root: Root, program: Names) -> str | None:
    """Return the path of a program's loader in the image, or None.

    The layout is ELF for 64 bits, little-endian (System V ABI, chapters 4 and 5).
    """
    with root.folder(program[:-1]) as folder, folder.read(program[-1]) as file:
        start = file.read(_HEADERS.size)
        if len(start) < _HEADERS.size or start[:6] != b"\x7fELF\x02\x01":
            return None
        return _loader(file, *_HEADERS.unpack(start))


def _loader(file: BinaryIO, place: int, length: int, number: int) -> str | None:
    for index in range(number):
        file.seek(place + index * length)
        part = file.read(_PART.size)
        if len(part) < _PART.size:
            return None
        kind, begin, size = _PART.unpack(part)
        if kind == _INTERPRETER and size <= _MOST_NAME:
            file.seek(begin)
            return file.read(size).rstrip(b"\0").decode("utf-8", "replace")
    return None


def library_folders(root: Root, first: str) -> list[Names]:
    """Return the library folders of the image's loader in search order (ld.so(8)), links resolved.

    Args:
        root: the image.
        first: the image's LD_LIBRARY_PATH.
    """
    asked = [*first.split(":"), *_configured(root, _CONFIGURATION, set()), *_DEFAULT]
    found = dict.fromkeys(root.resolve(path) for path in asked if path.startswith("/"))
    return [names for names in found if root.is_folder(names)]


def preloaded_libraries(root: Root, asked: str) -> list[Names]:
    """Return the libraries in an image's LD_PRELOAD, links resolved.

    A name without a folder stays so: the loader searches the library folders for it.
    """
    words = asked.replace(":", " ").split()
    found = (root.resolve(word) if "/" in word else (word,) for word in words)
    return [names for names in found if names]


def _configured(root: Root, pattern: str, read: set[Names]) -> Iterator[str]:
    """Yield the folders in the loader's configuration and in the files that it includes."""
    for names, _ in root.find(pattern):
        status = root.status_of(names)
        if names in read or status is None or not stat.S_ISREG(status.st_mode):
            continue
        read.add(names)
        with root.folder(names[:-1]) as folder, folder.read(names[-1]) as file:
            text = file.read(_MOST_CONFIGURATION_BYTES).decode("utf-8", "replace")
        for line in text.splitlines():
            words = re.split(r"[\s:,]+", line.partition("#")[0].strip())
            if words[0] == "include":
                for included in words[1:]:
                    path = included if included.startswith("/") else f"/etc/{included}"
                    yield from _configured(root, path, read)
            else:
                yield from (word.partition("=")[0] for word in words if word)


PYTHON = "python3"

_VERSION = re.compile(r"python(3\.\d+)")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OF_THE_FOLDER = ("PATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONHOME")
"""Variables of the image that scripts apply to Python only: they would break programs of the host."""
_PRELOADED = "argosy_preloaded"
"""Unexported variable of the scripts with the libraries to preload."""
_SCRIPT = re.compile(rb"#!.*/(?:env )?python[0-9.]*\s")
_FIRST_LINE = 256
_MOST_BYTES = 1 << 23
"""Bytes of a loader that are searched for `--argv0`."""


@dataclass(frozen=True)
class _Python:
    """The image's Python: its program file, loader and packages."""

    program: Names
    loader: Names
    version: str
    scripts: Names
    """Its folder on PATH."""
    home: Names
    """The folder of the virtual environment's base Python, or the program's own."""
    packages: Names | None
    """The virtual environment's packages; None: Python's own."""


def make_environment(store: Store, lock: ImageLock, folder: Path) -> Path:
    """Create or update the folder for an image; return its program `python3`.

    Raises:
        ArgosyError: if the image is not in the store, or has no suitable Python.
    """
    path, folder = store.root(lock.digest), folder.absolute()
    if not path.is_dir():
        raise ArgosyError(
            f"{lock.name}: the image is not in the store {store.path}",
            f"build it: argosy image build {lock.name}",
        )
    with Root(path) as root:
        try:
            python = _find(root, lock)
            variables = lock.config.environment
            libraries = library_folders(root, variables.get("LD_LIBRARY_PATH", ""))
            preloaded = preloaded_libraries(root, variables.get("LD_PRELOAD", ""))
            scripts = _python_scripts(root, python.scripts)
        except OSError as problem:
            raise ArgosyError(f"{lock.name}: {problem.filename}: {problem.strerror}") from None
    own = folder / "bin" / PYTHON
    commands = [
        _presence_check(store, lock, path, python),
        _exports(lock),
        _start_script(path, python, libraries, preloaded),
    ]
    _write_packages(folder, path, python)
    for name in scripts:
        script = _quoted(path, (*python.scripts, name))
        _write_program(folder / "bin" / name, f'exec "${{0%/*}}/{PYTHON}" {script} "$@"')
    # `python3` is made last: it marks a complete folder.
    for name in (f"python{python.version}", "python", PYTHON):
        _write_program(folder / "bin" / name, "\n".join(commands))
    return own


def _presence_check(store: Store, lock: ImageLock, path: Path, python: _Python) -> str:
    """Return the command that ends a script with an error if the image's Python is missing."""
    gone = (
        f"error: image {lock.name} is not in the store {store.path} any more; "
        f"make this anew: argosy image native {lock.name}"
    )
    return (
        f"[ -r {_quoted(path, python.program)} ] || {{ echo {shlex.quote(gone)} >&2; exit 127; }}"
    )


def _start_script(
    path: Path, python: _Python, libraries: Sequence[Names], preloaded: Sequence[Names]
) -> str:
    """Return the commands that start the image's Python through its loader."""
    folders = dict.fromkeys([*libraries, *(names[:-1] for names in preloaded)])
    found_in = ":".join(str(path.joinpath(*names)) for names in folders if names)
    return "\n".join(
        [
            f"{_PRELOADED}={shlex.quote(' '.join(names[-1] for names in preloaded))}",
            # An empty LD_PRELOAD disables the image's libraries; other values are added to them.
            f'[ -n "${{LD_PRELOAD-unset}}" ] || {_PRELOADED}=',
            f"exec {_quoted(path, python.loader)} --library-path {shlex.quote(found_in)} "
            # `$0` is relative to the script, so that the folder can be moved.
            f'--preload "${_PRELOADED}" --argv0 "$0" {_quoted(path, python.program)} "$@"',
        ]
    )


def _find(root: Root, lock: ImageLock) -> _Python:
    search = lock.config.environment.get("PATH") or DEFAULT_PATH
    for place in filter(None, search.split(":")):
        program = root.resolve(f"{place}/{PYTHON}")
        if root.status_of(program):
            return _described(root, lock, place, program)
    raise ArgosyError(
        f"{lock.name}: no {PYTHON} in the image's PATH ({search})",
        "Argosy can only run Python programs of an image without a container; remove runtime: "
        "native",
    )


def _described(root: Root, lock: ImageLock, place: str, program: Names) -> _Python:
    version = _VERSION.fullmatch(program[-1])
    asked = loader_of(root, program)
    if version is None or asked is None:
        raise ArgosyError(f"{lock.name}: {_path_of(program)} is not Python 3 for 64-bit Linux")
    loader = root.resolve(asked)
    with root.folder(loader[:-1]) as folder, folder.read(loader[-1]) as file:
        if b"argv0" not in file.read(_MOST_BYTES):
            raise ArgosyError(
                f"{lock.name}: {_path_of(loader)} lacks --argv0, which glibc 2.33 has",
                "use a newer base system, or remove runtime: native",
            )
    scripts = root.resolve(place)
    settings = _settings(root, scripts[:-1])
    packages = f"/{'/'.join(scripts[:-1])}/lib/python{version[1]}/site-packages"
    return _Python(
        program,
        loader,
        version[1],
        scripts,
        root.resolve(settings["home"]) if "home" in settings else program[:-1],
        root.resolve(packages) if "home" in settings else None,
    )


def _settings(root: Root, environment: Names) -> dict[str, str]:
    """Return the pyvenv.cfg of a virtual environment; an empty dictionary for another folder."""
    if root.status_of((*environment, "pyvenv.cfg")) is None:
        return {}
    with root.folder(environment) as folder, folder.read("pyvenv.cfg") as file:
        lines = file.read(1 << 16).decode("utf-8", "replace").splitlines()
    pairs = (line.partition("=") for line in lines)
    return {name.strip(): value.strip() for name, _, value in pairs}


def _python_scripts(root: Root, place: Names) -> list[str]:
    """Return the names of Python scripts beside Python."""
    found = []
    with root.folder(place) as folder:
        for name in filter(_NAME.fullmatch, folder.names()):
            names = root.resolve(f"/{'/'.join((*place, name))}")
            try:
                with root.folder(names[:-1]) as where, where.read(names[-1]) as file:
                    is_script = _SCRIPT.match(file.read(_FIRST_LINE))
            except OSError:
                continue
            if is_script:
                found.append(name)
    return found


def _exports(lock: ImageLock) -> str:
    """Return the commands that set the image's variables unless the run has set them."""
    variables = {
        name: value
        for name, value in lock.config.environment.items()
        if name not in _OF_THE_FOLDER and _VARIABLE.fullmatch(name)
    }
    # As in a container, where /workloads is read-only.
    variables.setdefault("PYTHONDONTWRITEBYTECODE", "1")
    return "\n".join(
        f'[ -n "${{{name}+set}}" ] || export {name}={shlex.quote(value)}'
        for name, value in variables.items()
    )


def _write_packages(folder: Path, root: Path, python: _Python) -> None:
    version = f"python{python.version}"
    library = folder / "lib" / version
    library.mkdir(parents=True, exist_ok=True)
    packages = library / "site-packages"
    if packages.is_symlink():
        packages.unlink()
    if python.packages is None:
        packages.mkdir(exist_ok=True)
    else:
        packages.symlink_to(root.joinpath(*python.packages))
    if not (folder / "lib64").is_symlink():
        (folder / "lib64").symlink_to("lib")
    own = "true" if python.packages is None else "false"
    home = root.joinpath(*python.home)
    write_text(
        folder / "pyvenv.cfg",
        f"home = {home}\ninclude-system-site-packages = {own}\nversion = {python.version}\n",
    )


def _write_program(path: Path, commands: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        temporary.write_text(f"#!/bin/sh\n{commands}\n", encoding="utf-8")
        temporary.chmod(0o700)


def _quoted(root: Path, names: Names) -> str:
    return shlex.quote(str(root.joinpath(*names)))


def _path_of(names: Names) -> str:
    return "/" + "/".join(names)
