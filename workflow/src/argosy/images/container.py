"""Runs one command in one container, made by udocker from a root file system on disk.

udocker 1.3.17 is used through its command line alone, with these of its faults kept away from users:

* Without a terminal its R1 mode loses the exit status and breaks on UTF-8, so it always gets a
  pseudo-terminal.
* It writes run-time state beside the container or, with `--location`, into the working directory.
  Each call has a private working directory, so any number may run from one root file system.
* Its own exit status is not trusted: `Outcome.status` is what the first process wrote.
"""

import fcntl
import os
import pty
import shutil
import signal
import subprocess
import tempfile
import termios
import tty
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from argosy.errors import ArgosyError
from argosy.images import tools
from argosy.images.ending import ended_with_us
from argosy.images.store import Store

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Of programs in images that set none, as in Docker and podman."""

GUEST_DIR = "/run/argosy"
"""Mounted from a private folder of the host in every container; never part of an image."""

HOST_FILES = ("resolv.conf", "hosts")
"""Files of the host's /etc that a container sees as they are when it starts."""

# The first process of the container. It passes on what asks for an end, which a first process would
# otherwise ignore, and writes the status itself: what udocker returns is not proof of anything.
_FIRST_PROCESS = """
: > /run/argosy/began
trap 'kill -TERM "$command" 2>/dev/null' TERM HUP INT
"$@" & command=$!
while :; do
    wait "$command"; status=$?
    kill -0 "$command" 2>/dev/null || break
done
echo "$status" > /run/argosy/status
exit "$status"
"""


@dataclass(frozen=True)
class Bind:
    """A folder of the host, seen in the container at `target`."""

    source: Path
    target: str


@dataclass(frozen=True)
class Container:
    """What to run. A `writable` root is a build's; others are frozen and stay as they are."""

    root: Path
    command: Sequence[str]
    binds: Sequence[Bind] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    workdir: str = "/"
    writable: bool = False
    mode: str = "R1"


@dataclass(frozen=True)
class Outcome:
    """How the command ended: its own exit status, or None when it was killed or never started.

    `failed_to_start`: the container came to nothing, and not because anybody ended it.
    """

    status: int | None
    failed_to_start: bool = False

    @property
    def ok(self) -> bool:
        """The command ran and returned 0."""
        return self.status == 0


def run(store: Store, container: Container, on_output: Callable[[bytes], None]) -> Outcome:
    """Run the container to its end and give its output, stdout and stderr together, to `on_output`.

    SIGTERM and SIGINT to this process end the container: its first process is asked to end and
    killed a few seconds later (see `ending`). Nothing remains on disk or in the process table.
    """
    _check(container)
    with private_folder() as folder:
        _copy_host_files(_subfolder(folder, "guest"))
        process, terminal = _start(store, container, folder)
        with ended_with_us(process) as asked_to_end:
            _relay(terminal, on_output)
            process.wait()
        began = (folder / "guest" / "began").exists()
        return Outcome(
            _reported_status(folder / "guest" / "status"),
            failed_to_start=not began and not asked_to_end.is_set(),
        )


@contextmanager
def private_folder() -> Iterator[Path]:
    """A temporary folder of this user alone, gone afterwards whatever happens."""
    folder = Path(tempfile.mkdtemp(prefix="argosy-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _check(container: Container) -> None:
    if not container.root.is_dir():
        raise ArgosyError(
            f"{container.root}: this image is not here; build it with: argosy image build"
        )
    for bind in container.binds:
        if not bind.source.is_dir():
            raise ArgosyError(f"{bind.source}: this folder is to be mounted and does not exist")
        if ":" in f"{bind.source}{bind.target}":
            raise ArgosyError(f"{bind.source}: udocker cannot mount a path that holds a colon")
    for name, value in container.environment.items():
        if "\n" in value:
            raise ArgosyError(f"{name}: udocker cannot pass on a variable that holds a line break")


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
        process = subprocess.Popen(
            _udocker_command(store, container, folder),
            cwd=_subfolder(folder, "cwd"),
            env=_udocker_environment(store, container, folder),
            stdin=inner,
            stdout=inner,
            stderr=inner,
            start_new_session=True,
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


def _udocker_command(store: Store, container: Container, folder: Path) -> list[str]:
    # Values go through a file: what stands in argv can be read by every user of the machine.
    environment = folder / "environment"
    lines = [f"{name}={value}\n" for name, value in container.environment.items()]
    environment.write_text("".join(lines), encoding="utf-8")
    volumes = [
        Bind(folder / "guest", GUEST_DIR),
        Bind(_subfolder(folder, "tmp"), "/tmp"),
        *container.binds,
    ]
    return [
        *tools.udocker_command(),
        "--quiet",
        *([] if container.writable else [f"--config={_read_only_config(folder)}"]),
        "run",
        f"--location={container.root}",
        "--containerauth",
        "--user=root",
        "--nobanner",
        f"--workdir={container.workdir}",
        f"--env-file={environment}",
        *(f"--volume={bind.source}:{bind.target}" for bind in volumes),
        # With --location udocker still takes its first argument as a container's name.
        "root",
        *("/bin/sh", "-c", _FIRST_PROCESS, "argosy"),
        *container.command,
    ]


def _read_only_config(folder: Path) -> Path:
    """udocker gives containers CAP_DAC_OVERRIDE, to which a read-only file is writable; not here."""
    path = folder / "udocker.conf"
    path.write_text("[DEFAULT]\nrunc_capabilities =\n", encoding="utf-8")
    return path


KEPT_VARIABLES = ("PATH", "LD_LIBRARY_PATH", "HOME", "USER", "LANG", "UDOCKER_DIR")


def _udocker_environment(store: Store, container: Container, folder: Path) -> dict[str, str]:
    """udocker's settings, and of the user's environment only what udocker itself needs."""
    surroundings = tools.udocker_environment(store)
    runtime = tools.container_runtime(store)
    return {
        "LANG": "C.UTF-8",
        **{name: surroundings[name] for name in KEPT_VARIABLES if name in surroundings},
        "TERM": "dumb",
        "TMPDIR": str(_subfolder(folder, "udocker-tmp")),
        "UDOCKER_DEFAULT_EXECUTION_MODE": container.mode,
        **({"UDOCKER_USE_RUNC_EXECUTABLE": str(runtime)} if runtime else {}),
    }


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
    try:
        return int(path.read_text(encoding="ascii"))
    except (FileNotFoundError, ValueError):
        return None
