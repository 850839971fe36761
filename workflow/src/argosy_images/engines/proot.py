"""Run containers with proot, for hosts that forbid user namespaces.

proot traces a program and rewrites the paths of its system calls. Three faults of old releases, such as
Debian 12's 5.1.0, are worked around: they miss newer system calls (`call_filter`), they leave traced
programs running when killed (`confined`), and they mount everything writable (`landlock`, if the kernel
has it). udocker's option `-k` is omitted: with 5.1.0 it breaks fstat(2).
"""

import os
import platform
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from argosy_common.errors import ArgosyError, plain
from argosy_images.engines import confined, runc
from argosy_images.rootfs.rooted import inside
from argosy_images.store.store import Store
from argosy_images.tools import Tools

_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
"""Host devices of every container. /dev/pts is left out: it has the user's other terminals."""

_LINKS = {"fd": "fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}
"""Links from /dev into /proc/self."""

_DYNAMIC_LOADERS = {
    "x86_64": "/lib64/ld-linux-x86-64.so.2",
    "aarch64": "/lib/ld-linux-aarch64.so.1",
}
_PROGRAM_FILES = ("/usr", "/lib", "/lib64", "/etc/ld.so.cache")
"""Files that proot itself needs to start."""

_LINKERS = "LD_"

_LOADER_WAIT_S = 10.0
# proot runs until its last process ends and returns the status of that process, so this script reports the
# command's status. It traps signals without ignoring them: the command would inherit ignored signals.
_COMMAND = """
trap : TERM HUP INT
while [ "$1" != -- ]; do export "$1"; shift; done
shift
"$@" 9>&-
echo $? >&9
"""


@dataclass(frozen=True)
class Program:
    """proot, the folders of its own libraries, and its loader, which starts the traced programs."""

    path: Path
    libraries: Sequence[Path]
    loader: Path = Path()


def command(
    program: Program, container: runc.Specification, folder: Path, *, traces_all: bool
) -> list[str | Path]:
    """Return the command that runs the container; `folder` is empty and private.

    Args:
        traces_all: stop programs at every system call, instead of only at those that proot needs; some
            combinations of kernel and proot require it.

    Raises:
        ArgosyError: if a path cannot be mounted.
    """
    variables = container.environment
    scratch = folder / "scratch"
    scratch.mkdir()
    mounts = [
        *(runc.Mount(Path(path), path, False) for path in ("/proc", "/sys")),
        *_devices(folder, container.mounts, [os.ttyname(0)] if container.terminal else []),
        *_with_sources(container.mounts, folder),
    ]
    for mount in mounts:
        if ":" in f"{mount.source}{mount.target}":
            raise ArgosyError(f"{mount.source}: proot cannot mount a path that contains a colon")
    readable, writable = (
        [str(mount.source) for mount in mounts if mount.writable is right]
        for right in (False, True)
    )
    (writable if container.writable else readable).append(str(container.root))
    confinement = confined.Confinement(
        command=[
            *started(program),
            *(("-0",) if container.shows_root else ()),
            *("-r", str(container.root), "-w", container.workdir),
            *(part for mount in mounts for part in ("-b", f"{mount.source}:{mount.target}")),
            *_wrapped(container),
        ],
        environment={
            # System V memory and other containers' memory are refused; UCX would fail.
            "UCX_TLS": "^mm,cma",
            **{name: value for name, value in variables.items() if not name.startswith(_LINKERS)},
            "PROOT_LOADER": str(program.loader),
            "PROOT_TMP_DIR": str(scratch),
            **({"PROOT_NO_SECCOMP": "1"} if traces_all else {}),
        },
        readable=[
            *readable,
            *_PROGRAM_FILES,
            *map(str, (program.path, program.loader, *program.libraries)),
        ],
        writable=[*writable, str(scratch)],
        # Only builds write to the root; they need changes of owners to succeed.
        owns_all=container.writable,
    )
    description = folder / "confined.json"
    confinement.write(description)
    return confined.command(description)


def ready(store: Store, folder: Path) -> Program:
    """Return proot with its loader extracted, which proot would otherwise write to /tmp at each start.

    Args:
        folder: private; gets the loader if the store cannot hold it.

    Raises:
        ArgosyError: if proot is missing or does not run, or no folder can hold its loader.
    """
    program = find(store)
    return replace(program, loader=_loader(store, program, folder))


def find(store: Store) -> Program:
    """Return proot without its loader.

    Raises:
        ArgosyError: if proot is missing.
    """
    path = Tools(store).find_proot()
    if path is None:
        raise ArgosyError(
            "proot is missing", "make the container tools available with: argosy setup"
        )
    unpacked = store.tools in path.parents
    return Program(path.resolve(), Tools(store).libraries() if unpacked else ())


def _loader(store: Store, program: Program, folder: Path) -> Path:
    status = program.path.stat()
    name = f"proot-loader-{status.st_size}-{status.st_mtime_ns}"
    if (store.engines / name).is_file() and _may_run_from(store.engines):
        return store.engines / name
    content = _loader_of(program)
    for place in (store.engines, folder):
        with suppress(OSError):
            place.mkdir(parents=True, exist_ok=True, mode=0o700)
            if _may_run_from(place):
                new = place / f"{name}.{os.getpid()}"
                new.write_bytes(content)
                new.chmod(0o500)
                new.replace(place / name)
                return place / name
    raise ArgosyError(
        f"proot cannot be started: programs cannot be run from {store.engines} or {folder} (noexec)",
        "set TMPDIR to a folder that allows programs",
    )


def _may_run_from(place: Path) -> bool:
    return not os.statvfs(place).f_flag & os.ST_NOEXEC


def _loader_of(program: Program) -> bytes:
    """Extract the loader: it is the executable of a program that proot runs."""
    # Imported here: needed once for a store.
    import psutil

    cat = shutil.which("cat", path=os.defpath) or "/bin/cat"
    try:
        process = subprocess.Popen(
            [*started(program), "-r", "/", cat],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={"PATH": os.defpath},
        )
    except OSError as problem:
        raise ArgosyError(f"{program.path} does not run here: {problem.strerror}") from None
    assert process.stdin and process.stderr
    try:
        until = time.monotonic() + _LOADER_WAIT_S
        while process.poll() is None and time.monotonic() < until:
            with suppress(OSError, psutil.Error):
                for child in psutil.Process(process.pid).children():
                    found = Path(f"/proc/{child.pid}/exe")
                    if found.readlink().name.startswith("prooted"):
                        return found.read_bytes()
            time.sleep(0.005)
    finally:
        process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=_LOADER_WAIT_S)
        process.kill()
        said = process.stderr.read().decode(errors="replace")
        process.stderr.close()
    why = next(iter(plain(said).strip().splitlines()), "it prints no error")
    raise ArgosyError(f"{program.path} does not run here: {why}")


def started(program: Program) -> list[str]:
    """Return proot's command line. A variable for its libraries would be visible in the container."""
    dynamic_loader = _DYNAMIC_LOADERS.get(platform.machine(), "")
    if not program.libraries or not Path(dynamic_loader).exists():
        return [str(program.path)]
    libraries = os.pathsep.join(map(str, program.libraries))
    return [dynamic_loader, "--library-path", libraries, str(program.path)]


def _devices(
    folder: Path, mounts: Sequence[runc.Mount], terminals: Sequence[str]
) -> Iterator[runc.Mount]:
    """Yield mounts of a private /dev and of the host's devices in it.

    proot needs existing mount points, so the folder has one for each device and mount.
    """
    own = folder / "dev"
    (own / "shm").mkdir(parents=True)
    (own / "shm").chmod(0o1777)
    for name, target in _LINKS.items():
        (own / name).symlink_to(f"/proc/self/{target}")
    yield runc.Mount(own, "/dev")
    paths = [*(f"/dev/{name}" for name in _DEVICES), *terminals]
    host = [runc.Mount(Path(path), path) for path in paths]
    there = [mount for mount in host if mount.source and mount.source.exists()]
    for mount in (*there, *mounts):
        name = mount.target.removeprefix("/dev/")
        if mount.source and name != mount.target:
            _make_place(own / name, mount.source.is_dir())
    yield from there


def _make_place(path: Path, is_folder: bool) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if is_folder:
        path.mkdir(exist_ok=True)
    else:
        path.touch()


def _with_sources(mounts: Sequence[runc.Mount], folder: Path) -> Iterator[runc.Mount]:
    """Yield the mounts, with folders on disk instead of those in memory."""
    for number, mount in enumerate(mounts):
        source = mount.source
        if source is None:
            source = folder / f"empty-{number}"
            source.mkdir()
            source.chmod(0o1777)
        yield replace(mount, source=source)


def _wrapped(container: runc.Specification) -> list[str]:
    """Wrap the command in `_COMMAND`, which also sets the dynamic linker's variables, hidden from proot.

    Images without a shell get the bare command.
    """
    if not os.path.lexists(inside(container.root, "/bin/sh")):
        return list(container.arguments)
    variables = [
        f"{name}={value}"
        for name, value in container.environment.items()
        if name.startswith(_LINKERS)
    ]
    return ["/bin/sh", "-c", _COMMAND, "sh", *variables, "--", *container.arguments]
