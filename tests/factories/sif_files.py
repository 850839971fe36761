"""SIF files as Apptainer builds them: a header, descriptors, and the SquashFS of a folder."""

import struct
import subprocess
from pathlib import Path

from argosy_images.oci import architecture
from argosy_images.store.store import Store
from argosy_images.tools import Tools

MACHINES = {"amd64": b"02", "arm64": b"04"}
DEFINITION, PARTITION = 0x4001, 0x4004


def make_squashfs(store: Store, folder: Path, file: Path, *options: str) -> Path:
    """Make a SquashFS of a folder; `options` are of mksquashfs, such as pseudo files."""
    tools = Tools(store)
    program = tools.require("mksquashfs", print, package="squashfs-tools")
    command = [program, folder, file, "-noappend", "-no-progress", *options]
    subprocess.run(command, env=tools.environment(), check=True, capture_output=True)
    return file


def descriptor(kind: int, offset: int, size: int, extra: bytes = b"") -> bytes:
    """Return the description of a part of a SIF file."""
    numbers = (1, 1, 0, offset, size, size, 0, 0, 0, 0)
    return struct.pack("<i?3I7q128s384s", kind, True, *numbers, b"part", extra)


def make_sif(
    file: Path, content: bytes, *, kind: int = 1, part: int = 2, machine: bytes = b""
) -> Path:
    """Write a SIF file with a root file system; `kind` 1 is a SquashFS, `part` 2 the primary one."""
    machine = machine or MACHINES[architecture()]
    start = 4096
    text = b"bootstrap: docker\n"
    data = start + 48 * 585
    offset = (data + len(text) + 4095) // 4096 * 4096
    extra = struct.pack("<ii3s", kind, part, machine)
    parts = descriptor(DEFINITION, data, len(text)) + descriptor(
        PARTITION, offset, len(content), extra
    )
    numbers = (0, 0, 46, 48, start, 48 * 585, data, offset + len(content) - data)
    launch = b"#!/usr/bin/env run-singularity\n"
    header = struct.pack(
        "<32s10s3s3s16s8q", launch, b"SIF_MAGIC", b"01", machine, bytes(16), *numbers
    )
    file.write_bytes(
        header.ljust(start, b"\0")
        + parts.ljust(48 * 585, b"\0")
        + text.ljust(offset - data, b"\0")
        + content
    )
    return file
