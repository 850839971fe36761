"""podman with a storage of its own."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


class Podman:
    """podman, apart from what else the user does with it.

    The process that keeps the user's namespaces is known by its number in a file of the runtime's
    folder. In a folder that others use, that number may be another process's by now, whose
    namespaces podman then enters and fails in.
    """

    def __init__(self, folder: Path, driver: str) -> None:
        """Folder: an empty one of a short name, podman allows its sockets 50 characters."""
        self.options = [
            *(f"--root={folder}/root", f"--runroot={folder}/run", f"--storage-driver={driver}"),
        ]
        self.environment = {**os.environ, "XDG_RUNTIME_DIR": str(folder)}

    def __call__(self, *arguments: str | Path) -> str:
        return self.run("podman", *self.options, *arguments)

    def run(self, *command: str | Path) -> str:
        """What a command prints that runs podman, or is it."""
        done = subprocess.run(
            command, capture_output=True, text=True, env=self.environment, timeout=600
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout


@contextmanager
def own_podman(driver: str) -> Iterator[Podman]:
    """Give podman a folder for as long as it is used."""
    folder = Path(tempfile.mkdtemp(prefix="pod-"))
    podman = Podman(folder, driver)
    try:
        yield podman
    finally:
        if os.geteuid() != 0:
            podman.run("podman", "unshare", "rm", "-rf", str(folder / "root"))
        for path in folder.rglob("pause.pid"):
            with suppress(ProcessLookupError):
                os.kill(int(path.read_text()), signal.SIGKILL)
        shutil.rmtree(folder, ignore_errors=True)
