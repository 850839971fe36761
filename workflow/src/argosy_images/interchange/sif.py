"""Import SIF files of Apptainer and Singularity, whose file system is a SquashFS partition.

Format: https://github.com/apptainer/sif/blob/main/pkg/sif/sif.go. unsquashfs unpacks the partition into a
new folder, with the user's rights; Landlock, if the kernel has it, forbids writing elsewhere. The folder is
then read as the tar of an untrusted layer, with the same checks. The image's environment scripts are never
run; only their literal assignments are used.
"""

import os
import re
import struct
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from argosy_common.disk import why_no_room
from argosy_common.errors import ArgosyError, plain, some
from argosy_common.units import amount
from argosy_images.engines import landlock
from argosy_images.interchange.opening import Archive
from argosy_images.interchange.streams import Say
from argosy_images.namespaces import die_with_parent, in_own_process
from argosy_images.oci import architecture
from argosy_images.rootfs.archive import digest_of_layer, layer_tar
from argosy_images.rootfs.layers import Change
from argosy_images.rootfs.rooted import Root
from argosy_images.store.store import Store
from argosy_images.tools import Tools

_MAGIC = b"SIF_MAGIC\0"
_HEADER = struct.Struct("<32s10s3s3s16s8q")
_DESCRIPTOR = struct.Struct("<i?3I5q2q128s384s")
_EXTRA = struct.Struct("<ii3s")
_PARTITION, _OCI_INDEX = 0x4004, 0x400A
_PRIMARY_SYSTEM = 2
_SQUASHFS, _ENCRYPTED = 1, 5
_MACHINES = {
    b"01": "386",
    b"02": "amd64",
    b"03": "arm",
    b"04": "arm64",
    b"06": "ppc64le",
    b"11": "s390x",
    b"12": "riscv64",
}
_MOST_DESCRIPTORS = 4096
_MANIFEST = "manifest.json"
_POLL_S = 0.5
_LARGEST_SCRIPT = 1 << 20
_MOST_SAID = 1 << 16
_SCRIPTS = re.compile(r"10-docker.*\.sh|90-environment\.sh")
_EXPORT = re.compile(
    r"""export\ (?P<name>[A-Za-z_][A-Za-z0-9_]*)=
    (?:'(?P<single>[^']*)'|"(?P<double>[^"$`\\]*)"|(?P<bare>[\w./:@%+,=-]*)
    |"\$\{(?P=name):-"?(?P<default>[^"'$`\\{}]*)"?\}")""",
    re.VERBOSE,
)
_DEVICE = re.compile(r"could not create (?:character|block) device (.+?), because")


@dataclass(frozen=True)
class Partition:
    """Position of a SIF file's SquashFS, in bytes."""

    offset: int
    size: int


def is_sif(file: Path) -> bool:
    """Return whether a file has a SIF header."""
    if not file.is_file():
        return False
    with file.open("rb") as stream:
        return stream.read(42)[32:] == _MAGIC


def find_partition(file: Path) -> Partition:
    """Find the partition with a SIF file's root file system.

    Raises:
        ArgosyError: if there is none, or it is encrypted, cut off or for another architecture.
    """
    with file.open("rb") as stream:
        size = stream.seek(0, 2)
        found = [*_descriptors(file, stream, size)]
    if not found:
        raise ArgosyError(f"{file}: this SIF file has no root file system (primary partition)")
    place, kind, machine = found[0]
    if kind == _ENCRYPTED:
        raise ArgosyError(f"{file}: this SIF file is encrypted", "build it without encryption")
    if kind != _SQUASHFS:
        raise ArgosyError(f"{file}: the root file system of this SIF file is no SquashFS")
    if (made_for := _MACHINES.get(machine.rstrip(b"\0"), "another machine")) != architecture():
        raise ArgosyError(
            f"{file}: made for {made_for}, but this machine is linux/{architecture()}"
        )
    if not 0 < place.offset < place.offset + place.size <= size:
        raise ArgosyError(f"{file}: damaged or cut off: its file system is incomplete")
    return place


def _descriptors(
    file: Path, stream: IO[bytes], size: int
) -> Iterator[tuple[Partition, int, bytes]]:
    """Yield the partitions of the root file system, with their format and machine."""
    stream.seek(0)
    header = stream.read(_HEADER.size)
    if len(header) < _HEADER.size:
        raise ArgosyError(f"{file}: damaged or cut off: its header is incomplete")
    *_, number, start, length, _, _ = _HEADER.unpack(header)
    if not (0 <= number <= _MOST_DESCRIPTORS and 0 < start <= size) or length < 0:
        raise ArgosyError(f"{file}: damaged: its header is invalid")
    stream.seek(start)
    for _ in range(number):
        data = stream.read(_DESCRIPTOR.size)
        if len(data) < _DESCRIPTOR.size:
            raise ArgosyError(f"{file}: damaged or cut off: its descriptors are incomplete")
        kind, used, _, _, _, offset, inner, *_, extra = _DESCRIPTOR.unpack(data)
        if used and kind == _OCI_INDEX:
            raise ArgosyError(
                f"{file}: OCI-SIF files are not supported",
                "name the image that it was made from: docker://REFERENCE",
            )
        system, part, machine = _EXTRA.unpack_from(extra)
        if used and kind == _PARTITION and part == _PRIMARY_SYSTEM:
            yield Partition(offset, inner), system, machine


def unpack_sif(store: Store, file: Path, work: Path, say: Say) -> "SifArchive":
    """Unpack a SIF file's root file system into the new folder `work`.

    Call this outside of user namespaces, where unsquashfs would change owners.

    Raises:
        ArgosyError: if the file cannot be used, the disk is full, or unsquashfs is missing.
    """
    place = find_partition(file)
    program = Tools(store).require("unsquashfs", say, package="squashfs-tools")
    say(f"{file}: unpacking its file system of {amount(place.size)}")
    work.mkdir(mode=0o700)
    options = ("-no-progress", "-no-xattrs", "-dest", work / "root", "-offset", str(place.offset))
    command: list[str | Path] = [program, *options, file.absolute()]
    said = in_own_process(lambda: _unsquash(command, Tools(store).environment(), work))
    if said:
        raise ArgosyError(f"{file}: {said}")
    return SifArchive(file, work / "root", say)


def _unsquash(command: list[str | Path], environment: dict[str, str], work: Path) -> str:
    """Run unsquashfs; return its first error, or an empty text."""
    with (work / "said").open("w+b") as said:
        if landlock.version():
            landlock.restrict(["/"], [str(work), "/dev/null"])
        process = subprocess.Popen(
            command,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=said,
            preexec_fn=die_with_parent,  # noqa: PLW1509
        )
        while process.poll() is None:
            try:
                process.wait(_POLL_S)
            except subprocess.TimeoutExpired:
                if why := why_no_room(work, 0) or (
                    "unsquashfs reports too many errors"
                    if os.fstat(said.fileno()).st_size > _MOST_SAID
                    else ""
                ):
                    process.kill()
                    process.wait()
                    return why
        said.seek(0)
        lines = plain(said.read(_MOST_SAID).decode(errors="replace")).strip().splitlines()
    wrong = [line for line in lines if line.strip() and not _is_of_dev(line, work)]
    if wrong:
        return wrong[0].removeprefix("FATAL ERROR:").strip()[:500].replace(f"{work}/root", "")
    # 2: unsquashfs skipped devices.
    return "" if process.returncode in (0, 2) else f"unsquashfs failed ({process.returncode})"


def _is_of_dev(line: str, work: Path) -> bool:
    """Return whether a line reports a skipped device in /dev, which containers do not need."""
    found = _DEVICE.search(line)
    return found is not None and Path(found[1]).is_relative_to(work / "root/dev")


class SifArchive(Archive):
    """The unpacked files of a SIF file, as an archive of `docker save` with one layer."""

    def __init__(self, file: Path, root: Path, say: Say) -> None:
        super().__init__(str(file), file.name)
        self._root = root
        self._variables = self._read_variables(say)

    def __contains__(self, name: str) -> bool:
        return name == _MANIFEST

    def open(self, name: str) -> AbstractContextManager[IO[bytes]]:
        """Open all files as the tar of a layer."""
        return layer_tar(self._root, Change())

    def read(self, name: str, digest: str | None = None) -> Any:
        """Return the list of images, or the configuration of the only one."""
        if name == _MANIFEST:
            return [{"Config": "config", "Layers": ["its file system"]}]
        return {
            "config": {"Env": [f"{name}={value}" for name, value in self._variables.items()]},
            "rootfs": {"diff_ids": [digest_of_layer(self._root, Change())]},
            "history": [{"created_by": "the file system of a SIF file"}],
        }

    def _read_variables(self, say: Say) -> dict[str, str]:
        """Return the variables that the image's scripts set to literal values; report all other lines.

        Raises:
            ArgosyError: if a script cannot be read.
        """
        variables: dict[str, str] = {}
        left: list[str] = []
        try:
            for name, text in self._scripts():
                for line in filter(None, map(str.strip, text.splitlines())):
                    if found := _EXPORT.fullmatch(line):
                        values = (found[kind] for kind in ("single", "double", "bare", "default"))
                        variables[found["name"]] = next(each for each in values if each is not None)
                    elif not line.startswith("#"):
                        left.append(f"{name}: {line[:100]}")
        except OSError as problem:
            raise ArgosyError(f"{self.title}: {problem.filename}: {problem.strerror}") from None
        if left:
            say(
                f"{self.title}: scripts of images are not run, so these lines are ignored: {some(left)}"
            )
        return variables

    def _scripts(self) -> Iterator[tuple[str, str]]:
        """Yield name and text of the scripts that set the image's variables, in their order."""
        with Root(self._root) as root:
            names = root.resolve("/.singularity.d/env")
            if not root.is_folder(names):
                return
            with root.folder(names) as folder:
                for name in folder.names():
                    if _SCRIPTS.fullmatch(name):
                        with folder.read(name) as stream:
                            yield name, stream.read(_LARGEST_SCRIPT).decode(errors="replace")
