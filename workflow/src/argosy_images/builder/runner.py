"""RUN: a command in a file system, as if it were root's.

runc starts it, or proot where there are no namespaces. The user's id is the only one there, so whatever
gives files to other users, or becomes another user, is answered with success and left undone, by the
kernel's system call filter or by proot: what package managers ask for then works without root, and nobody
but the user owns anything in an image.
"""

import json
import os
import platform
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from argosy_images.engines import proot
from argosy_images.engines.runc import ARCHITECTURES, Mount, Specification
from argosy_images.engines.runc import command as runc_command
from argosy_images.rootfs.rooted import Names, Root

CAPABILITIES = (
    *("CAP_AUDIT_WRITE", "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL"),
    *("CAP_MKNOD", "CAP_NET_BIND_SERVICE", "CAP_NET_RAW", "CAP_SETFCAP", "CAP_SETGID"),
    *("CAP_SETPCAP", "CAP_SETUID", "CAP_SYS_CHROOT"),
)
"""Docker's default set."""

GIVE_AWAY = ("chown", "fchown", "lchown", "fchownat", "chown32", "fchown32", "lchown32")
BECOME = tuple(
    f"set{what}{width}"
    for what in ("uid", "gid", "groups", "reuid", "regid", "resuid", "resgid", "fsuid", "fsgid")
    for width in ("", "32")
)
DEVICE_KINDS = (0o020000, 0o060000)
KIND_OF_FILE = 0o170000


@dataclass(frozen=True)
class Command:
    """A command of a step, with its environment and mounts."""

    arguments: Sequence[str]
    environment: Mapping[str, str]
    workdir: str
    mounts: Sequence[Mount]


class Runner(Protocol):
    """Runs commands of steps."""

    def run(
        self, root: Path, command: Command, scratch: Path, on_output: Callable[[bytes], None]
    ) -> int:
        """Run the command in `root` to its end; its exit status, 128 + the signal that killed it.

        `scratch` is an empty folder.
        """


@dataclass(frozen=True)
class RuncRunner:
    """Runs commands by runc, in namespaces of our own (`namespaces.in_own_namespaces`)."""

    runc: Path

    def run(
        self, root: Path, command: Command, scratch: Path, on_output: Callable[[bytes], None]
    ) -> int:
        """Run the command, as `Runner` says."""
        with _mount_points(root, command.mounts) as mounts:
            specification = _specification(root, replace(command, mounts=mounts))
            text = json.dumps(specification.content())
            (scratch / "config.json").write_text(text, encoding="utf-8")
            return _run_relayed(runc_command(self.runc, scratch), on_output)


@dataclass(frozen=True)
class ProotRunner:
    """Runs commands by proot, where there are no namespaces."""

    program: proot.Program

    def run(
        self, root: Path, command: Command, scratch: Path, on_output: Callable[[bytes], None]
    ) -> int:
        """Run the command, as `Runner` says."""
        with _mount_points(root, command.mounts) as mounts:
            specification = _specification(root, replace(command, mounts=mounts))
            # Modes are judged by the paths that proot has rewritten.
            return _run_relayed(
                proot.command(self.program, specification, scratch, traces_all=True), on_output
            )


def _specification(root: Path, command: Command) -> Specification:
    return Specification(
        root,
        command.arguments,
        command.environment,
        command.workdir,
        command.mounts,
        writable=True,
        capabilities=CAPABILITIES,
        seccomp=_seccomp(),
    )


def _run_relayed(command: Sequence[str | Path], on_output: Callable[[bytes], None]) -> int:
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert process.stdout
    with process.stdout as output:
        while data := os.read(output.fileno(), 1 << 16):
            on_output(data)
    return process.wait()


def _seccomp() -> dict[str, Any]:
    success: dict[str, Any] = {"action": "SCMP_ACT_ERRNO", "errnoRet": 0}
    calls: list[dict[str, Any]] = [{"names": [*GIVE_AWAY, *BECOME], **success}]
    for name, argument in (("mknod", 1), ("mknodat", 2)):
        for kind in DEVICE_KINDS:
            mode = {"index": argument, "value": KIND_OF_FILE, "valueTwo": kind}
            calls.append(
                {"names": [name], **success, "args": [{**mode, "op": "SCMP_CMP_MASKED_EQ"}]}
            )
    architectures = ARCHITECTURES.get(platform.machine(), [])
    return {"defaultAction": "SCMP_ACT_ALLOW", "architectures": architectures, "syscalls": calls}


@contextmanager
def _mount_points(root: Path, mounts: Sequence[Mount]) -> Iterator[list[Mount]]:
    """Places for the mounts, which are taken away again where the image had none."""
    made: list[Names] = []
    placed = []
    with Root(root) as tree:
        for mount in mounts:
            if mount.target.startswith("/dev/"):
                placed.append(mount)
            else:
                place = tree.resolve(mount.target)
                _make_place(tree, place, mount.source, made)
                placed.append(replace(mount, target=f"/{'/'.join(place)}"))
        for name in ("proc", "dev", "sys"):
            _make_place(tree, tree.resolve(name), None, made)
        try:
            yield placed
        finally:
            for names in reversed(made):
                # The step has put something there, or changed the way to it.
                with suppress(OSError), tree.folder(names[:-1]) as folder:
                    folder.remove_if_empty(names[-1])


def _make_place(tree: Root, place: Names, source: Path | None, made: list[Names]) -> None:
    for depth, name in enumerate(place, start=1):
        with tree.folder(place[: depth - 1]) as folder:
            if folder.status(name):
                continue
            if depth == len(place) and source and source.is_file():
                with folder.make_file(name):
                    pass
                folder.set_mode_of(name, 0o644)
            else:
                folder.make_folder(name, 0o755)
            made.append(place[:depth])
