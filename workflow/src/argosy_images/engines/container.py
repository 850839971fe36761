"""Runs one command in one container, from a frozen root file system on disk."""

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
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from argosy_common.errors import ArgosyError, plain
from argosy_images.engines.invocation import invocation, is_ours, subfolder
from argosy_images.engines.models import (
    HOST_FILES,
    OWN_ENGINES,
    Container,
    Outcome,
)
from argosy_images.engines.mount_points import with_mount_points
from argosy_images.store.scratch import private_folder
from argosy_images.store.store import Store

if TYPE_CHECKING:
    import psutil


def run(store: Store, container: Container, on_output: Callable[[bytes], None]) -> Outcome:
    """Run the container to its end and give its output, stdout and stderr together, to `on_output`.

    SIGTERM and SIGINT to this process end the container: its first process is asked to end and
    killed after its patience and a few seconds (see `process_tree`). Nothing remains on disk or in the
    process table.
    """
    with private_folder() as (folder, lock):
        container = with_mount_points(container, folder)
        _check_container(container)
        _make_workdir(container, folder)
        _copy_host_files(subfolder(folder, "guest"))
        for path in container.files:
            shutil.copyfile(path, folder / "guest" / path.name)
        for name, text in container.secrets.items():
            write_private(folder / "guest" / name, text)
        held = replace(container, held=[*container.held, lock])
        process, terminal = _start_engine(store, held, folder)
        began = folder / "guest" / "began"
        with ended_with_us(process, container.patience_s) as asked_to_end:
            _relay(terminal, _plain_until(began, on_output))
            process.wait()
        return Outcome(
            _reported_status(folder / "guest" / "status"),
            failed_to_start=not began.exists() and not asked_to_end.is_set(),
        )


def attach(store: Store, container: Container) -> int:
    """Run the container with the input, output and terminal of this process; its exit status.

    Raises:
        ArgosyError: as `run`.
    """
    with private_folder() as (folder, lock):
        container = with_mount_points(container, folder)
        _check_container(container)
        _make_workdir(container, folder)
        _copy_host_files(subfolder(folder, "guest"))
        engine = invocation(store, replace(container, attached=True), folder)
        process = subprocess.Popen(
            engine.command,
            cwd=subfolder(folder, "cwd"),
            env=engine.environment,
            pass_fds=[*container.held, lock],
        )
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:
                # It is for what runs inside, which has had it, too.
                continue


def write_private(path: Path, text: str) -> None:
    """Write a new file that nobody else may read, whatever the umask is."""
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
    """Make the working directory where it lies in the container's own /tmp; elsewhere it has to be there.

    Engines would make it in the image, refuse it without a reason or start somewhere else.
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
            f"{container.workdir}: this is the image's WORKDIR, and there is no such folder",
            "remove mounts over it; if an earlier version froze the image, remove it with "
            "`argosy image prune` and build or import it again",
        )


def _resolved(container: Container, path: str) -> str:
    """Return where a path of the image leads to, its links followed."""
    # Imported where an image starts: commands that only ask about engines do without.
    from argosy_images.rootfs.rooted import Root

    with Root(container.root) as tree:
        return "/" + "/".join(tree.resolve(path))


def _host_path(container: Container, path: str) -> Path:
    """Return where the host has what is seen at `path`: in what is mounted there, or in the image."""
    resolved = _resolved(container, path)
    for each in (path, resolved):
        above = [bind for bind in container.binds if each.startswith(f"{bind.target}/")]
        if inner := max(above, key=lambda bind: len(bind.target), default=None):
            return inner.source / each.removeprefix(f"{inner.target}/")
    return Path(f"{container.root}{resolved}")


def _copy_host_files(guest: Path) -> None:
    """Name resolution as on the host; images hold links to these copies (see freeze)."""
    for name in HOST_FILES:
        source = Path("/etc") / name
        if source.is_file():
            shutil.copyfile(source, subfolder(guest, "etc") / name)


def _start_engine(
    store: Store, container: Container, folder: Path
) -> tuple[subprocess.Popen[bytes], int]:
    terminal, inner = pty.openpty()
    # The container has a terminal of its own that turns \n into \r\n; this one must not add to it.
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


STOP_GRACE_S = 6.0
"""From asking a container to end until it is killed; a cancelled run must be gone within 10 s."""

REPEAT_S = 2.0
"""Signals so soon after the first are the same one: a scheduler sends it to every process of a job, and
some pass it on besides."""


@contextmanager
def ended_with_us(
    process: subprocess.Popen[bytes], patience_s: float = 0.0
) -> Iterator[threading.Event]:
    """End the container when this process is asked to end, or leaves with an exception.

    What runs inside gets `patience_s` besides the usual grace, unless this process is asked once more.
    Gives an event that is set when it was asked.
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
    previous = {
        number: signal.signal(number, stop)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        if in_main
    }
    try:
        yield asked
    finally:
        if process.poll() is None:
            end_container(process.pid)
            process.wait()
        # The engine may have ended before all that was around it.
        for thread in ending:
            thread.join()
        for number, handler in previous.items():
            signal.signal(number, handler)


def end_container(engine_pid: int, grace_s: float = STOP_GRACE_S) -> None:
    """Ask the container to end, and kill it and all around it after `grace_s` seconds."""
    # Imported now: every node waits for a container to start, and psutil has no part in that.
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
    """Return the container's first process, just below the runtime; without one, all but the engine."""
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
