"""Mount the host's NVIDIA driver into containers.

Driver libraries must match the host's kernel module exactly, so images cannot contain them. The first node
with a driver version copies it into the store, and containers mount the copy. The driver's libraries are
all whose name ends in its version, in the linker's cache or in the same folders; a fixed list of names,
such as udocker's, would miss those of newer drivers.
"""

import importlib.util
import itertools
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from argosy_common.disk import remove_tree
from argosy_common.errors import ArgosyError
from argosy_images.engines.models import GUEST_DIR, Bind
from argosy_images.store.store import Store

DRIVER_DIR = f"{GUEST_DIR}/driver"
"""The container's folder of driver libraries; programs are in its `bin`."""

NVML_VARIABLE = "ARGOSY_NVML"
"""Variable with the path of NVML's Python module, for the agent."""

PROGRAMS = ("nvidia-smi", "nvidia-debugdump")

_ELF = b"\x7fELF"
_VERSION = re.compile(r"Kernel Module(?: for \S+)?\s+(\d+(?:\.\d+)+)")
_CACHED = re.compile(r"^\s*\S+ \(.*\) => (/.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Host:
    """The host's files and folders of its driver."""

    version_file: Path = Path("/proc/driver/nvidia/version")
    linker_cache: Sequence[str] = ("ldconfig", "-p")
    programs: Sequence[Path] = (Path("/usr/bin"), Path("/usr/local/bin"), Path("/opt/bin"))


def driver_version(host: Host) -> str | None:
    """Return the version of the loaded kernel module, such as `570.86.15`; None without a driver.

    Raises:
        ArgosyError: if the version file has an unknown format.
    """
    try:
        text = host.version_file.read_text(encoding="utf-8")
    except OSError:
        return None
    found = _VERSION.search(text)
    if not found:
        raise ArgosyError(f"{host.version_file}: contains no driver version: {text[:200]!r}")
    return found[1]


def driver_mount(store: Store, host: Host = Host()) -> Bind | None:
    """Return the mount of the driver's copy in the store, copied if missing; None without a driver.

    Raises:
        ArgosyError: if the driver's libraries are missing, or cannot be copied into the store.
    """
    version = driver_version(host)
    if version is None:
        return None
    folder = store.driver(version)
    if not folder.is_dir():
        if not store.is_writable:
            raise store.read_only(
                f"NVIDIA's driver {version} must be copied into it from this node"
            )
        with store.locked(f"driver-{version}"):
            if not folder.is_dir():
                _copy_driver(host, version, folder)
    return Bind(folder, DRIVER_DIR)


def nvml_module() -> Path | None:
    """Return NVML's Python module (one file) from Argosy's environment; None if it is not installed."""
    spec = importlib.util.find_spec("pynvml")
    path = Path(spec.origin) if spec and spec.origin else None
    # Another package of that name is a folder. A run works without NVML.
    return path if path and path.name == "pynvml.py" and os.access(path, os.R_OK) else None


def with_driver(environment: Mapping[str, str]) -> dict[str, str]:
    """Add the driver's folders to the image's PATH and LD_LIBRARY_PATH."""
    libraries = [DRIVER_DIR, *filter(None, [environment.get("LD_LIBRARY_PATH")])]
    return {
        **environment,
        "LD_LIBRARY_PATH": ":".join(libraries),
        "PATH": f"{environment['PATH']}:{DRIVER_DIR}/bin",
    }


def _copy_driver(host: Host, version: str, target: Path) -> None:
    """Copy the driver into `target`, atomically."""
    libraries = sorted(set(_libraries(host, version)))
    if not any(path.name.startswith("libcuda.so") for path in libraries):
        raise ArgosyError(
            f"{host.version_file}: the kernel runs NVIDIA's driver {version}, but its libcuda.so is not in "
            "the linker's cache (ldconfig -p)",
            "ask the site for the driver's libraries",
        )
    making = target.with_name(f".making-{version}")
    remove_tree(making)
    (making / "bin").mkdir(parents=True, mode=0o700)
    try:
        for path in libraries:
            shutil.copyfile(path, making / path.name)
            for name in _other_names(path):
                (making / name).symlink_to(path.name)
        # A driver with its own prefix has its programs beside the libraries' folders.
        prefixed = sorted({path.parent.with_name("bin") for path in libraries})
        for program in _programs([*host.programs, *prefixed]):
            shutil.copyfile(program, making / "bin" / program.name)
            # The host's mode may include setuid, which would give others the user's rights.
            (making / "bin" / program.name).chmod(0o755)
        making.rename(target)
    except OSError as problem:
        remove_tree(making)
        raise ArgosyError(
            f"{problem.filename}: the driver cannot be copied: {problem.strerror}"
        ) from None


def _libraries(host: Host, version: str) -> Iterator[Path]:
    """Yield the driver's libraries for this machine's architecture."""
    program = shutil.which(host.linker_cache[0], path="/sbin:/usr/sbin:/bin:/usr/bin") or "ldconfig"
    command = [program, *host.linker_cache[1:]]
    cache = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    bits = _CACHED.findall("\n".join(line for line in cache.splitlines() if "libc6," in line))
    found = {Path(name).resolve() for name in bits}
    folders = {path.parent for path in found if path.name.endswith(f".so.{version}")}
    for folder in folders:
        # Libraries that programs open by full path are missing in the cache.
        yield from (path for path in folder.glob(f"*.so.{version}") if path.is_file())


def _other_names(library: Path) -> Iterator[str]:
    """Yield the names of links to a library in its folder, such as libcuda.so.1."""
    stem = library.name.partition(".so")[0]
    for path in library.parent.glob(f"{stem}.so*"):
        if path.is_symlink() and path.resolve() == library:
            yield path.name


def _programs(folders: Sequence[Path]) -> Iterator[Path]:
    """Yield the driver's programs. Wrapper scripts are skipped: their target is missing in containers."""
    for name in PROGRAMS:
        found = (folder / name for folder in folders if _is_binary(folder / name))
        yield from itertools.islice(found, 1)


def _is_binary(program: Path) -> bool:
    with suppress(OSError), program.open("rb") as file:
        return file.read(len(_ELF)) == _ELF
    return False
