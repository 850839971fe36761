"""Runs one command in one container, from a frozen root file system on disk.

The engines `runc` and `crun` start that program itself, which is quicker than by udocker and shows the
root file system read-only. The others are udocker's execution modes, for hosts where that does not work
(see `udocker`).
"""

import fcntl
import json
import os
import pty
import shutil
import signal
import stat
import subprocess
import termios
import tty
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from argosy.errors import ArgosyError, plain
from argosy.images import tools
from argosy.images.engines import runc, udocker
from argosy.images.engines.mounts import mount_flags, mounts_below
from argosy.images.engines.process_tree import ended_with_us
from argosy.images.store.scratch import private_folder
from argosy.images.store.store import Store

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Of programs in images that set none, as in Docker and podman."""

GUEST_DIR = "/run/argosy"
"""Mounted from a private folder of the host in every container; never part of an image."""

HOST_FILES = ("resolv.conf", "hosts")
"""Files of the host's /etc that a container sees as they are when it starts."""

OWN_ENGINES = ("runc", "crun")
"""Programs that read the same description of a container."""

ISOLATING_ENGINES = (*OWN_ENGINES, "R1")
"""What they run sees the image and what is mounted, and no other process, and cannot write to what is
mounted read-only. R1 is udocker's runc."""

UNISOLATED_ENGINES = ("P2", "P1")
"""udocker's two ways by proot, for hosts without user namespaces. What they run is an ordinary process of
the user, whose paths are rewritten as long as it lets them be."""

ENGINES = (*ISOLATING_ENGINES, *UNISOLATED_ENGINES)


# The first process of the container. Its two streams become one, since runc carries two in no certain
# order. It passes on what asks for an end, which a first process would
# otherwise ignore, and writes the status itself: what udocker returns is not proof of anything. It opens
# that file before the command can put a FIFO in its place.
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
class Bind:
    """A folder of the host, seen in the container at `target`.

    What runs inside may write to it only where that is said: see `ISOLATING_ENGINES`.
    """

    source: Path
    target: str
    writable: bool = False


@dataclass(frozen=True)
class Container:
    """What to run, in the frozen `root`, which stays as it is; `engine` is one of `ENGINES`.

    `files` of the host are copied into `GUEST_DIR`, since not every engine can mount a single file.
    `secrets` are texts that lie there by their names, for the program to take away: unlike variables
    they are then nowhere to be seen.
    `held` are descriptors that stay open until the container has ended, whatever becomes of us.
    `patience_s` is how long the command may take to end by itself once it was asked to.
    """

    root: Path
    command: Sequence[str]
    binds: Sequence[Bind] = ()
    files: Sequence[Path] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)
    workdir: str = "/"
    engine: str = "runc"
    held: Sequence[int] = ()
    patience_s: float = 0.0


@dataclass(frozen=True)
class Outcome:
    """How the command ended: its own exit status, or None when it was killed or never started.

    `failed_to_start`: the container came to nothing, and not because anybody ended it.
    """

    status: int | None
    failed_to_start: bool = False


def run(store: Store, container: Container, on_output: Callable[[bytes], None]) -> Outcome:
    """Run the container to its end and give its output, stdout and stderr together, to `on_output`.

    SIGTERM and SIGINT to this process end the container: its first process is asked to end and
    killed after its patience and a few seconds (see `process_tree`). Nothing remains on disk or in the
    process table.
    """
    _check(container)
    with private_folder() as (folder, lock):
        _copy_host_files(_subfolder(folder, "guest"))
        for path in container.files:
            shutil.copyfile(path, folder / "guest" / path.name)
        for name, text in container.secrets.items():
            write_private(folder / "guest" / name, text)
        held = replace(container, held=[*container.held, lock])
        process, terminal = _start(store, held, folder)
        began = folder / "guest" / "began"
        with ended_with_us(process, container.patience_s) as asked_to_end:
            _relay(terminal, _plain_until(began, on_output))
            process.wait()
        return Outcome(
            _reported_status(folder / "guest" / "status"),
            failed_to_start=not began.exists() and not asked_to_end.is_set(),
        )


def write_private(path: Path, text: str) -> None:
    """Write a new file that nobody else may read, whatever the umask is."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)


def _check(container: Container) -> None:
    if not container.root.is_dir():
        raise ArgosyError(
            f"{container.root}: this image is not here", "build it with: argosy image build"
        )
    for bind in container.binds:
        if not bind.source.is_dir():
            raise ArgosyError(f"{bind.source}: this folder is to be mounted and does not exist")
        if not _is_ours(bind) and not _is_there(container, bind.target):
            raise ArgosyError(f"{bind.target}: the frozen image has no such folder to mount at")
        if container.engine not in OWN_ENGINES and ":" in f"{bind.source}{bind.target}":
            raise ArgosyError(f"{bind.source}: udocker cannot mount a path that holds a colon")
    for name, value in container.environment.items():
        if container.engine not in OWN_ENGINES and "\n" in value:
            raise ArgosyError(f"{name}: udocker cannot pass on a variable that holds a line break")


def _is_ours(bind: Bind) -> bool:
    """Return whether it goes into the folder that every container is given, not into the image's."""
    return bind.target.startswith(f"{GUEST_DIR}/")


def _is_there(container: Container, target: str) -> bool:
    """Return whether a folder can be mounted at `target`: the image has it, or a mount above does."""
    above = [bind for bind in container.binds if target.startswith(f"{bind.target}/")]
    inner = max(above, key=lambda bind: len(bind.target), default=None)
    if inner is None:
        return os.path.lexists(f"{container.root}{target}")
    return (inner.source / target.removeprefix(f"{inner.target}/")).is_dir()


def _copy_host_files(guest: Path) -> None:
    """Name resolution as on the host; images hold links to these copies (see freeze)."""
    for name in HOST_FILES:
        source = Path("/etc") / name
        if source.is_file():
            shutil.copyfile(source, _subfolder(guest, "etc") / name)


def _start(store: Store, container: Container, folder: Path) -> tuple[subprocess.Popen[bytes], int]:
    terminal, inner = pty.openpty()
    # The container has a terminal of its own that turns \n into \r\n; this one must not add to it.
    tty.setraw(inner)
    try:
        own = container.engine in OWN_ENGINES
        process = subprocess.Popen(
            (_own_command if own else _udocker_command)(store, container, folder),
            cwd=_subfolder(folder, "cwd"),
            env=tools.environment(store)
            if own
            else udocker.run_environment(store, container.engine, folder),
            stdin=inner,
            stdout=inner,
            stderr=inner,
            start_new_session=True,
            pass_fds=container.held,
            # Were this process killed, the terminal would hang up on the container and end it.
            # Two system calls, so other threads are no danger to it.
            preexec_fn=_be_hung_up_on,  # noqa: PLW1509
        )
    finally:
        os.close(inner)
    return process, terminal


def _be_hung_up_on() -> None:
    # Below nohup it would be ignored, here and in all that is started from here.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _subfolder(folder: Path, name: str) -> Path:
    path = folder / name
    path.mkdir(exist_ok=True)
    return path


def _volumes(container: Container, folder: Path) -> list[Bind]:
    for bind in filter(_is_ours, container.binds):
        (folder / "guest" / bind.target.removeprefix(f"{GUEST_DIR}/")).mkdir(exist_ok=True)
    own = [Bind(folder / "guest", GUEST_DIR, True), Bind(_subfolder(folder, "tmp"), "/tmp", True)]
    return [*own, *container.binds]


def _own_command(store: Store, container: Container, folder: Path) -> list[str | Path]:
    program = tools.find(store, container.engine)
    if program is None:
        raise ArgosyError(
            f"{container.engine} is missing",
            "make the container tools available with: argosy setup",
        )
    specification = runc.Specification(
        # runc takes no way by symbolic links, such as a store on a larger disk.
        container.root.resolve(),
        ["/bin/sh", "-c", _FIRST_PROCESS, "argosy", *container.command],
        container.environment,
        container.workdir,
        [
            *(mount for bind in _volumes(container, folder) for mount in _mounts(bind)),
            *runc.devices(),
        ],
        writable=False,
    )
    bundle = _subfolder(folder, "bundle")
    (bundle / "config.json").write_text(json.dumps(specification.content()), encoding="utf-8")
    # The first process of these namespaces is killed with unshare, and takes all others along.
    return [
        *("unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child"),
        *("--mount-proc", "--propagation", "slave"),
        *runc.command(program, bundle),
    ]


def _mounts(bind: Bind) -> Iterator[runc.Mount]:
    """Yield runc's mounts of a folder. `ro` is of one mount: what is mounted below would stay writable."""
    source = bind.source.absolute()
    yield runc.Mount(source, bind.target, bind.writable, mount_flags(source))
    if not bind.writable:
        yield from mounts_below(source.resolve(), bind.target)


def _udocker_command(store: Store, container: Container, folder: Path) -> list[str | Path]:
    volumes = [f"{bind.source}:{bind.target}" for bind in _volumes(container, folder)]
    command = [*("/bin/sh", "-c", _FIRST_PROCESS, "argosy"), *container.command]
    return udocker.run_command(
        # Its runc takes no way by symbolic links either.
        container.root.resolve(),
        command,
        volumes=volumes,
        environment=container.environment,
        workdir=container.workdir,
        folder=folder,
        read_only=[bind.target for bind in _volumes(container, folder) if not bind.writable],
    )


def _plain_until(began: Path, on_output: Callable[[bytes], None]) -> Callable[[bytes], None]:
    """Give on what comes, without codes for terminals as long as it comes from the engine itself."""

    def take(data: bytes) -> None:
        if not began.exists():
            data = plain(data.decode(errors="surrogateescape")).encode(errors="surrogateescape")
        on_output(data)

    return take


def _relay(terminal: int, on_output: Callable[[bytes], None]) -> None:
    """Pass output on until the last process that holds the terminal has ended."""
    try:
        while True:
            try:
                data = os.read(terminal, 1 << 16)
            except OSError:  # Linux says EIO, not end of file, when the other side is gone.
                return
            if not data:
                return
            on_output(data.replace(b"\r\n", b"\n"))
    finally:
        os.close(terminal)


def _reported_status(path: Path) -> int | None:
    """Return what the first process noted; the container may have put anything in its place."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        descriptor = os.open(path, flags)
        with os.fdopen(descriptor, "rb") as file:
            status = int(file.read(16)) if stat.S_ISREG(os.fstat(descriptor).st_mode) else -1
    except (OSError, ValueError):
        return None
    return status if 0 <= status <= 255 else None
