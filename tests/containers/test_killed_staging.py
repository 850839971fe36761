"""Packing and unpacking killed at any moment leaves no incomplete image that looks complete."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from packed_images import is_whole, make_packed, pack, start_holder

from argosy_images.archive.unpacking import read_index
from argosy_images.staging.stage import Place, staged
from argosy_images.store.lockfile import ImageLock
from argosy_images.store.store import Store

pytestmark = pytest.mark.thorough

SIZE = 20_000_000


def kill_after(seconds: float, process: "subprocess.Popen[str]") -> None:
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    process.communicate()


def wait_for(folder: Path, pattern: str) -> None:
    deadline = time.monotonic() + 20
    while not any(folder.glob(pattern)):
        assert time.monotonic() < deadline
        time.sleep(0.002)


def test_packing(tmp_path: Path, moments: int) -> None:
    store, seed = Store(tmp_path / ".argosy"), random.randrange(1 << 30)
    chance = random.Random(seed)
    wanted = make_packed(store, tmp_path, "image", SIZE)
    lock = tmp_path / "resources/images/image/image.lock"
    partial = 0
    for number in range(moments):
        wanted.archive.unlink(missing_ok=True)
        packer = subprocess.Popen(
            [sys.executable, "-m", "argosy.cli", "image", "pack", "image"],
            cwd=tmp_path,
            env={**os.environ, "ARGOSY_STORE": str(store.path)},
            stderr=subprocess.DEVNULL,
            text=True,
        )
        if number % 2:
            wait_for(wanted.archive.parent, ".sha256-*")
        kill_after(chance.uniform(0, 0.05 if number % 2 else 1.0), packer)
        partial += any(wanted.archive.parent.glob(".sha256-*"))
        if wanted.archive.exists():
            # A file with the image's name is complete.
            read_index(wanted.archive, wanted.digest, "")
        assert pack(store, ImageLock.read(lock)) == wanted
        assert list(wanted.archive.parent.iterdir()) == [wanted.archive], seed
        with staged(wanted, Place(tmp_path, None), lambda line: None) as image:
            assert is_whole(image.root, "image", SIZE), seed
    assert partial > 0, "none was killed while it packed"


def test_unpacking(tmp_path: Path, moments: int) -> None:
    store, seed = Store(tmp_path / ".argosy"), random.randrange(1 << 30)
    chance = random.Random(seed)
    wanted = make_packed(store, tmp_path, "image", SIZE)
    name = wanted.digest.replace(":", "-")
    partial = 0
    for number in range(moments):
        node = tmp_path / f"node-{number}"
        node.mkdir()
        holder = start_holder(wanted, node, 1 << 30)
        if number % 2:
            wait_for(node, "argosy-*/.making-*")
        kill_after(chance.uniform(0, 0.05 if number % 2 else 0.5), holder)
        partial += any(node.glob("argosy-*/.making-*"))
        for root in node.glob("argosy-*/sha256-*/root"):
            assert is_whole(root, "image", SIZE), seed
        with staged(wanted, Place(node, 1 << 30), lambda line: None) as image:
            assert is_whole(image.root, "image", SIZE), seed
        left = {path.name for path in image.root.parents[1].iterdir()}
        assert left == {"lock", name, f"{name}.lock"}, seed
    assert partial > 0, "none was killed while it unpacked"
