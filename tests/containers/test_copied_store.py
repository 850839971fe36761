"""A store that was copied by a tool that drops marks of removed files gives the same images."""

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
    ("options", "loses_files"),
    [("-a", False), ("-r --preserve=mode,timestamps,links", False), ("-a", True)],
    ids=["whole", "without attributes", "without special files, as by rsync"],
)
def test_removed_files_stay_removed(
    store: Store, tmp_path: Path, options: str, loses_files: bool
) -> None:
    built(store, tmp_path / "image", STEPS)
    copied = Store(tmp_path / "copied")
    subprocess.run(["cp", *options.split(), store.path, copied.path], check=True)
    if loses_files:
        subprocess.run(["find", copied.layer(""), "-type", "c", "-delete"], check=True)
    lock = built(copied, tmp_path / "image", STEPS + LOOK)
    found = (copied.root(lock.digest) / "found").read_text()
    assert found.split() == ["/kept:", "stays", "/made-anew:", "new"]
    # The marks change no digest, so the image can still be exported; `find` has changed folders' times.
    for layer in () if loses_files else copied.layer("").iterdir():
        step = cache.read_step(copied, layer.name)
        if step and step.removed:
            assert digest_of_layer(layer / "diff", step.change) == step.diff_id
