"""Run a command as root of an image's file system, by runc, or by proot without namespaces.

Only the user's own id exists there. Calls that change a file's owner or switch to another user return
success without effect, through runc's system-call filter or proot. Package managers therefore work without
root, and the user owns all files of an image.
"""

import json
import os
import platform
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from argosy_images.engines import proot
from argosy_images.engines.runc import ARCHITECTURES, Mount, Specification
from argosy_images.engines.runc import command as runc_command
from argosy_images.rootfs.rooted import Names, Root

CAPABILITIES = (
    *("CAP_AUDIT_WRITE", "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL"),
    *("CAP_MKNOD", "CAP_NET_BIND_SERVICE", "CAP_NET_RAW", "CAP_SETFCAP", "CAP_SETGID"),
    *("CAP_SETPCAP", "CAP_SETUID", "CAP_SYS_CHROOT"),
)
"""Docker's default capabilities."""

GIVE_AWAY = ("chown", "fchown", "lchown", "fchownat", "chown32", "fchown32", "lchown32")
BECOME = tuple(
    f"set{what}{width}"
    for what in ("uid", "gid", "groups", "reuid", "regid", "resuid", "resgid", "fsuid", "fsgid")
    for width in ("", "32")
)
DEVICE_KINDS = (0o020000, 0o060000)
KIND_OF_FILE = 0o170000


Start = Callable[[Specification, Path], Sequence[str | Path]]
"""Returns the command line that starts a container; the folder is empty and private."""


def by_runc(runc: Path) -> Start:
    """Start containers in the build's namespaces (`namespaces.in_own_namespaces`)."""

    def start(specification: Specification, folder: Path) -> Sequence[str | Path]:
        text = json.dumps(specification.content())
        (folder / "config.json").write_text(text, encoding="utf-8")
        return runc_command(runc, folder)

    return start


def by_proot(program: proot.Program) -> Start:
    """Start containers without namespaces."""
    # The judge checks changes of modes by the paths that proot has rewritten.
    return partial(proot.command, program, traces_all=True)


def run(
    start: Start, container: Specification, scratch: Path, on_output: Callable[[bytes], None]
) -> int:
    """Run a step's command, and return its exit status, or 128 + the signal that killed it.

    Mount points, capabilities and the system-call filter are added. `scratch` is an empty folder.
    """
    with _mount_points(container.root, container.mounts) as mounts:
        step = replace(container, mounts=mounts, capabilities=CAPABILITIES, seccomp=_seccomp())
        return _run_relayed(start(step, scratch), on_output)


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
    """Create missing mount points, and remove them afterwards."""
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
                # The step may have written there, or moved a parent folder.
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
