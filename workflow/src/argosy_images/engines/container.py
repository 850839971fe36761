"""Run one command in a container whose root is a frozen tree."""

import fcntl
import os
import pty
import shutil
import signal
import stat
import subprocess
import termios
import threading
import time
import tty
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from argosy_common.errors import ArgosyError, plain
from argosy_images.engines.invocation import invocation, is_ours, subfolder
from argosy_images.engines.models import HOST_FILES, OWN_ENGINES, Container, Outcome
from argosy_images.engines.mount_points import with_mount_points
from argosy_images.store.scratch import private_folder
from argosy_images.store.store import Store

if TYPE_CHECKING:
    import psutil


def run(store: Store, container: Container, on_output: Callable[[bytes], None]) -> Outcome:
    """Run the container to its end and pass its stdout and stderr, merged, to `on_output`.

    SIGTERM, SIGINT and SIGHUP to this process end the container: its first process gets SIGTERM, and
    SIGKILL after `patience_s` and `STOP_GRACE_S`. No files or processes remain.
    """
    with _prepared(container) as (ready, folder):
        process, terminal = _start_engine(store, ready, folder)
        began = folder / "guest" / "began"
        with ended_with_us(process, container.patience_s) as asked_to_end:
            _relay(terminal, _plain_until(began, on_output))
            process.wait()
        return Outcome(
            _reported_status(folder / "guest" / "status"),
            failed_to_start=not began.exists() and not asked_to_end.is_set(),
        )


def attach(store: Store, container: Container) -> int:
    """Run the container on this process's terminal, input and output; return its exit status.

    SIGTERM and SIGHUP to this process end the container, as in `run`.
    """
    with _prepared(replace(container, attached=True)) as (ready, folder):
        engine = invocation(store, ready, folder)
        process = subprocess.Popen(
            engine.command,
            cwd=subfolder(folder, "cwd"),
            env=engine.environment,
            pass_fds=ready.held,
            # If this process is killed, the container ends.
            preexec_fn=_hang_up_with_parent,  # noqa: PLW1509
        )
        with ended_with_us(process, signals=(signal.SIGTERM, signal.SIGHUP)) as asked_to_end:
            status = _wait(process)
        if asked_to_end.is_set():
            return 128 + signal.SIGTERM
        return status if status >= 0 else 128 - status


def _wait(process: subprocess.Popen[bytes]) -> int:
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:
            # Ctrl-C is for the program inside, which received it too.
            continue


@contextmanager
def _prepared(container: Container) -> Iterator[tuple[Container, Path]]:
    """Check the container; yield it with its mount points, and the private folder that they need."""
    with private_folder() as (folder, lock):
        container = with_mount_points(container, folder)
        _check_container(container)
        _make_workdir(container, folder)
        guest = subfolder(folder, "guest")
        copy_host_files(subfolder(guest, "etc"))
        for path in container.files:
            shutil.copyfile(path, guest / path.name)
        for name, text in container.secrets.items():
            write_private(guest / name, text)
        yield replace(container, held=[*container.held, lock]), folder


def write_private(path: Path, text: str) -> None:
    """Write a new file that only the user can read, with any umask."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)


def _check_container(container: Container) -> None:
    if not container.root.is_dir():
        raise ArgosyError(
            f"{container.root}: the image is missing", "build it with: argosy image build"
        )
    for bind in container.binds:
        if not (bind.source.is_dir() or bind.source.is_file()):
            raise ArgosyError(f"{bind.source}: the folder to mount does not exist")
        if not is_ours(bind) and not _host_path(container, bind.target).exists():
            raise ArgosyError(
                f"{bind.target}: the frozen image has no such mount point",
                f"mount below /data, or make it in the Containerfile: RUN mkdir -p {bind.target}",
            )
        if container.engine not in OWN_ENGINES and ":" in f"{bind.source}{bind.target}":
            raise ArgosyError(
                f"{bind.source}: {container.engine} cannot mount a path that contains a colon"
            )


def _make_workdir(container: Container, folder: Path) -> None:
    """Make a working directory below the container's private /tmp; elsewhere it must exist.

    Engines would make it in the image, fail without a reason, or start in another folder.
    """
    if container.workdir == "/":
        return
    resolved, own = (_resolved(container, path) for path in (container.workdir, "/tmp"))
    top = resolved.split("/")[1]
    if f"{resolved}/".startswith(f"{own}/"):
        below = resolved.removeprefix(own).lstrip("/")
        (subfolder(folder, "tmp") / below).mkdir(parents=True, exist_ok=True)
    elif (
        top not in ("dev", "proc", "sys") and not _host_path(container, container.workdir).is_dir()
    ):
        raise ArgosyError(
            f"{container.workdir}: the image's WORKDIR does not exist",
            "remove mounts over it; if an earlier version froze the image, remove it with "
            "`argosy image prune` and build or import it again",
        )


def _resolved(container: Container, path: str) -> str:
    """Resolve the symbolic links of a path within the image."""
    # Imported here: commands that only list engines do not need it.
    from argosy_images.rootfs.rooted import Root

    with Root(container.root) as tree:
        return "/" + "/".join(tree.resolve(path))


def _host_path(container: Container, path: str) -> Path:
    """Return the host's path of a container path, in a mount or in the image."""
    resolved = _resolved(container, path)
    for each in (path, resolved):
        above = [bind for bind in container.binds if each.startswith(f"{bind.target}/")]
        if inner := max(above, key=lambda bind: len(bind.target), default=None):
            return inner.source / each.removeprefix(f"{inner.target}/")
    return Path(f"{container.root}{resolved}")


def copy_host_files(folder: Path) -> list[Path]:
    """Copy the host's name resolution files to a folder; frozen images link to the copies (`freeze`)."""
    there = [path for name in HOST_FILES if (path := Path("/etc") / name).is_file()]
    return [shutil.copyfile(path, folder / path.name) for path in there]


def _start_engine(
    store: Store, container: Container, folder: Path
) -> tuple[subprocess.Popen[bytes], int]:
    terminal, inner = pty.openpty()
    # The container's own terminal already turns \n into \r\n; this one must not do it again.
    tty.setraw(inner)
    try:
        engine = invocation(store, container, folder)
        process = subprocess.Popen(
            engine.command,
            cwd=subfolder(folder, "cwd"),
            env=engine.environment,
            stdin=inner,
            stdout=inner,
            stderr=inner,
            start_new_session=True,
            pass_fds=container.held,
            # If this process is killed, its terminal hangs up and ends the container.
            # Two system calls only, so other threads cannot interfere.
            preexec_fn=_take_terminal,  # noqa: PLW1509
        )
    finally:
        os.close(inner)
    return process, terminal


def _hang_up_with_parent() -> None:
    """Let the end of the parent end this process, as the hangup of a terminal does."""
    # Imported here: a job's container does not need it.
    from argosy_images.namespaces import die_with_parent

    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    die_with_parent(signal.SIGHUP)


def _take_terminal() -> None:
    """Make standard input the controlling terminal, and let its hangup end this process."""
    # nohup ignores the signal in all child processes.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _plain_until(began: Path, on_output: Callable[[bytes], None]) -> Callable[[bytes], None]:
    """Forward output to `on_output`; remove terminal codes until the command begins."""

    def take(data: bytes) -> None:
        if not began.exists():
            data = plain(data.decode(errors="surrogateescape")).encode(errors="surrogateescape")
        on_output(data)

    return take


def _relay(terminal: int, on_output: Callable[[bytes], None]) -> None:
    """Forward output until the last process on the terminal has ended."""
    try:
        while True:
            try:
                data = os.read(terminal, 1 << 16)
            except OSError:  # Linux reports EIO, not end of file, when the other side is closed.
                return
            if not data:
                return
            on_output(data.replace(b"\r\n", b"\n"))
    finally:
        os.close(terminal)


def _reported_status(path: Path) -> int | None:
    """Read the exit status that the first process wrote; the container may have replaced the file."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        descriptor = os.open(path, flags)
        with os.fdopen(descriptor, "rb") as file:
            status = int(file.read(16)) if stat.S_ISREG(os.fstat(descriptor).st_mode) else -1
    except (OSError, ValueError):
        return None
    return status if 0 <= status <= 255 else None


STOP_GRACE_S = 6.0
"""Seconds from SIGTERM to SIGKILL; a cancelled run must end within 10 s."""

REPEAT_S = 2.0
"""Signals within these seconds count as one: a scheduler signals every process of a job, and some of
them forward the signal."""


@contextmanager
def ended_with_us(
    process: subprocess.Popen[bytes],
    patience_s: float = 0.0,
    signals: Sequence[signal.Signals] = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP),
) -> Iterator[threading.Event]:
    """End the container if this process gets one of the signals, or the block raises.

    The first signal gives the container `patience_s` plus the usual grace, a second one only the grace.
    Yields an event that the first signal sets.
    """
    asked = threading.Event()
    first: float | None = None
    ending: list[threading.Thread] = []

    def stop(number: int, frame: object) -> None:
        nonlocal first
        now = time.monotonic()
        if first is not None and now < first + REPEAT_S:
            return
        grace_s = STOP_GRACE_S + (patience_s if first is None else 0.0)
        first = now if first is None else first
        asked.set()
        thread = threading.Thread(target=end_container, args=(process.pid, grace_s), daemon=True)
        ending.append(thread)
        thread.start()

    in_main = threading.current_thread() is threading.main_thread()
    previous = {number: signal.signal(number, stop) for number in signals if in_main}
    try:
        yield asked
    finally:
        if process.poll() is None:
            end_container(process.pid)
            process.wait()
        # The engine may have ended before its helper processes.
        for thread in ending:
            thread.join()
        for number, handler in previous.items():
            signal.signal(number, handler)


def end_container(engine_pid: int, grace_s: float = STOP_GRACE_S) -> None:
    """Send SIGTERM to the container; after `grace_s` seconds kill it and its helper processes."""
    # Imported here: no start of a container should wait for it.
    import psutil

    try:
        engine = psutil.Process(engine_pid)
        family = [engine, *engine.children(recursive=True)]
    except psutil.NoSuchProcess:
        return
    for process in _first_processes(family):
        with suppress(psutil.NoSuchProcess):
            process.terminate()
    _, alive = psutil.wait_procs(family, timeout=grace_s)
    for process in alive:
        with suppress(psutil.NoSuchProcess):
            process.kill()


def _first_processes(family: "list[psutil.Process]") -> "list[psutil.Process]":
    """Return the first process of the container, a child of runc or crun; else all but the engine."""
    import psutil

    runtimes, first = set(), []
    for process in family:
        with suppress(psutil.NoSuchProcess):
            if process.name().startswith(("runc", "crun")):
                runtimes.add(process.pid)
    for process in family:
        with suppress(psutil.NoSuchProcess):
            if process.ppid() in runtimes:
                first.append(process)
    return first or family[1:]
