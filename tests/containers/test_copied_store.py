"""A store that was copied by a tool that drops marks of removed files gives the same images."""

import shutil
import subprocess
from pathlib import Path

import pytest
from image_programs import BASE, built

from argosy_images.builder import cache
from argosy_images.rootfs.archive import digest_of_layer
from argosy_images.store.store import Store

pytestmark = pytest.mark.container

STEPS = f"""{BASE}
RUN mkdir /kept /made-anew && touch /kept/gone /kept/stays /made-anew/old
RUN rm /kept/gone && rm -r /made-anew && mkdir /made-anew && touch /made-anew/new
"""
LOOK = "RUN ls /kept /made-anew > /found\n"


@pytest.mark.parametrize(
    "command", ["cp -r --preserve=mode,timestamps,links", "rsync -aH --no-D", "cp -a"]
)
def test_removed_files_stay_removed(store: Store, tmp_path: Path, command: str) -> None:
    if not shutil.which(command.split(maxsplit=1)[0]):
        pytest.skip("rsync is not installed")
    built(store, tmp_path / "image", STEPS)
    copied = Store(tmp_path / "copied")
    subprocess.run([*command.split(), f"{store.path}/", f"{copied.path}/"], check=True)
    lock = built(copied, tmp_path / "image", STEPS + LOOK)
    found = (copied.root(lock.digest) / "found").read_text()
    assert found.split() == ["/kept:", "stays", "/made-anew:", "new"]
    # The marks change no digest, so the image can still be exported.
    for layer in copied.layer("").iterdir():
        step = cache.read_step(copied, layer.name)
        if step and step.removed:
            assert digest_of_layer(layer / "diff", step.change) == step.diff_id
