"""Make trees with all kinds of files, and compare trees."""

import hashlib
import os
import random
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from argosy_images.rootfs.freeze import make_frozen
from argosy_images.rootfs.layers import Layer, read_overlay


def make_odd_tree(frozen: Path) -> None:
    """Make a frozen tree with links, modes, names and sizes that are easily lost in a copy."""
    root = frozen.with_name(f"{frozen.name}.layer")
    (root / "bin").mkdir(parents=True)
    (root / "empty").mkdir()
    (root / "team").mkdir()
    (root / "bin/tool").write_text("#!/bin/sh\n")
    (root / "bin/again").hardlink_to(root / "bin/tool")
    (root / "zz-far-away").hardlink_to(root / "bin/tool")
    (root / "bin/link").symlink_to("../../outside")
    (root / "bin/absolute").symlink_to("/etc/passwd")
    (root / "bin/nowhere").symlink_to("no such file")
    (root / "bin/nobody-may-read").write_text("secret")
    (root / "-starts-with a dash\nand a line").write_text("x")
    (root / os.fsdecode(b"not utf-8 \xff")).write_text("y")
    os.mkfifo(root / "pipe")
    (root / "big").write_bytes(random.Random(1).randbytes(3_000_000))
    (root / "zeros").write_bytes(bytes(4_000_000))
    for number in range(200):
        place = root / f"many/{number % 7}" / f"{'long-name-' * 12}{number}"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(str(number))
        os.utime(place, ns=(number, 1_700_000_000_123_456_789 + number))
    (root / "bin/tool").chmod(0o6755)
    (root / "bin/nobody-may-read").chmod(0o111)
    (root / "team").chmod(0o2775)
    (root / "many").chmod(0o1777)
    make_frozen([Layer(root, read_overlay(root))], frozen)


def describe_tree(root: Path) -> Mapping[str, Any]:
    """Return mode, time, hard link and content of each file, by path."""
    found: dict[str, Any] = {}
    first: dict[tuple[int, int], str] = {}
    for folder, folders, files in os.walk(root):
        for name in ["", *folders, *files]:
            path = Path(folder) / name
            status = path.lstat()
            key = str(path.relative_to(root))
            # Only hard links inside the tree count; layers have others.
            twin = first.setdefault((status.st_dev, status.st_ino), key)
            found[key] = (oct(status.st_mode), status.st_mtime_ns, twin, _content(path, status))
    return found


def _content(path: Path, status: os.stat_result) -> str:
    if stat.S_ISLNK(status.st_mode):
        return str(path.readlink())
    if not stat.S_ISREG(status.st_mode):
        return ""
    readable = os.access(path, os.R_OK)
    return hashlib.sha256(path.read_bytes()).hexdigest() if readable else str(status.st_size)
