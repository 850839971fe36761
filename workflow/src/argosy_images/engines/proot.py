"""Containers by proot, for hosts that allow no user namespaces.

proot traces a program and rewrites the paths of its system calls. Of old releases, such as Debian 12's
5.1.0, three faults are kept away from users: they do not know calls that are younger (`call_filter`), what
they have traced goes on when they are killed (`confined`), and they show the host's files and those of the
image writable (`landlock`, where the kernel has it). udocker passes `-k`, with which 5.1.0 breaks fstat(2);
here it is left out.
"""

import os
import platform
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from argosy_common.errors import ArgosyError, plain
from argosy_images.engines import confined, runc
from argosy_images.rootfs.rooted import inside
from argosy_images.store.store import Store
from argosy_images.tools import Tools

_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
"""Devices of the host that every container sees. /dev/pts holds the user's other terminals."""

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
# proot goes on until the last of its processes has ended, and its status is that one's: so the command's
# is told here. Signals are for the command; a shell that ignored them would have it ignore them, too.
_COMMAND = """
trap : TERM HUP INT
while [ "$1" != -- ]; do export "$1"; shift; done
shift
"$@" 9>&-
echo $? >&9
"""


@dataclass(frozen=True)
class Program:
    """proot, the small program by which it loads others, and where unpacked libraries of it lie."""

    path: Path
    libraries: Sequence[Path]
    loader: Path = Path()


def command(
    program: Program, container: runc.Specification, folder: Path, *, traces_all: bool
) -> list[str | Path]:
    """Return the command that runs the container; `folder` is empty and private.

    Args:
        traces_all: every system call stops the program, and not only those that proot asked for; some
            kernels and releases of proot do not go together otherwise.

    Raises:
        ArgosyError: when a path cannot be mounted.
    """
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
            # Memory of System V, and of another container's processes, is refused; UCX would give up.
            "UCX_TLS": "^mm,cma",
            **_without_linkers_variables(container.environment),
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
        # Where a build makes the files of an image, none of them is another user's.
        owns_all=container.writable,
    )
    description = folder / "confined.json"
    confinement.write(description)
    return confined.command(description)


def ready(store: Store, folder: Path) -> Program:
    """Return proot, with the program by which it loads others, which it carries within itself.

    By itself it would write that to the host's /tmp, and run it from there, each time.

    Args:
        folder: private; where the loader goes when the store cannot take it.

    Raises:
        ArgosyError: when proot is missing or does not run, or there is no place for its loader.
    """
    program = find(store)
    return replace(program, loader=_loader(store, program, folder))


def find(store: Store) -> Program:
    """Return proot without its loader.

    Raises:
        ArgosyError: when it is missing.
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
    """Return the loader's content: it is what the kernel executes while proot runs something else."""
    # Imported here: once for a store.
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
    why = next(iter(plain(said).strip().splitlines()), "it says nothing")
    raise ArgosyError(f"{program.path} does not run here: {why}")


def started(program: Program) -> list[str]:
    """Return how proot is called. Were its libraries named by a variable, its container would see that."""
    dynamic_loader = _DYNAMIC_LOADERS.get(platform.machine(), "")
    if not program.libraries or not Path(dynamic_loader).exists():
        return [str(program.path)]
    libraries = os.pathsep.join(map(str, program.libraries))
    return [dynamic_loader, "--library-path", libraries, str(program.path)]


def _devices(
    folder: Path, mounts: Sequence[runc.Mount], terminals: Sequence[str]
) -> Iterator[runc.Mount]:
    """Yield a /dev of the container's own, and the host's devices that it is to have.

    proot binds to names that are there, so the folder has one for each device and mount.
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
    """Yield the mounts; those in memory have a folder of this disk instead."""
    for number, mount in enumerate(mounts):
        source = mount.source
        if source is None:
            source = folder / f"empty-{number}"
            source.mkdir()
            source.chmod(0o1777)
        yield replace(mount, source=source)


def _wrapped(container: runc.Specification) -> list[str]:
    """Return the command, with its status told and its variables for the dynamic linker set.

    proot itself must not see those. An image without a shell has neither.
    """
    if not os.path.lexists(inside(container.root, "/bin/sh")):
        return list(container.arguments)
    variables = [
        f"{name}={value}"
        for name, value in container.environment.items()
        if name.startswith(_LINKERS)
    ]
    return ["/bin/sh", "-c", _COMMAND, "sh", *variables, "--", *container.arguments]


def _without_linkers_variables(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if not name.startswith(_LINKERS)}
