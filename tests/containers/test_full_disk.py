"""A full disk during a build gives a clear error, leaves an intact store, and allows a rerun."""

import subprocess
import sys
from pathlib import Path

import pytest

from argosy_images.store.store import Store
from argosy_images.tools import Tools

pytestmark = pytest.mark.container

BUILD = """
import subprocess, sys
from pathlib import Path
from argosy_common.errors import ArgosyError
from argosy_images.builder.builder import build_image
from argosy_images.store.store import Store

disk, folder, tools = map(Path, sys.argv[1:])
store = Store(disk / "store")

def build():
    return build_image(store, folder, folder / "image.lock", folder / "build.log")

def mount(*options):
    subprocess.run(["mount", *options, "tmpfs", disk], check=True)

# A build leaves 256 MiB free.
mount("-t", "tmpfs", "-o", "size=260m")
store.path.mkdir()
store.tools.symlink_to(tools)
try:
    build()
except ArgosyError as problem:
    print("error:", problem)
layers = [path for path in (store.path / "layers").iterdir()]
print("layers:", len(layers), all((path / "layer.json").is_file() for path in layers))
print("left:", sorted(path.name for path in (store.path / "builds").iterdir()))
print("frozen:", store.path.joinpath("roots").exists())
mount("-t", "tmpfs", "-o", "remount,size=400m")
lock = build()
print("then:", (store.root(lock.digest) / "large").stat().st_size)
"""


def test_a_build_on_a_full_disk(tmp_path: Path, project_store: Store) -> None:
    # If runc is not installed, it does not fit on the small disk.
    Tools(project_store).require_runtime(print)
    disk, folder = tmp_path / "disk", tmp_path / "image"
    disk.mkdir()
    folder.mkdir()
    (folder / "small").write_bytes(b"x" * 1_000_000)
    (folder / "large").write_bytes(bytes(30_000_000))
    (folder / "Containerfile").write_text("FROM scratch\nCOPY small /\nCOPY large /\n")
    command = ["unshare", "--user", "--map-root-user", "--mount", sys.executable, "-c", BUILD]
    done = subprocess.run(
        [*command, disk, folder, project_store.tools], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    said = done.stdout
    assert "error: " in said
    assert "No space left on device: 28.6 MiB do not fit" in said
    assert "free space, for example with `argosy image prune`, and try again" in said
    assert "Traceback" not in said + done.stderr
    assert "layers: 1 True\nleft: []\nfrozen: False\n" in said
    assert said.endswith("then: 30000000\n")
