"""A build that is killed at any moment leaves a store that is whole."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from argosy.images.build.builder import build_image
from argosy.images.lockfile import ImageLock
from argosy.images.store import Store

pytestmark = [pytest.mark.udocker, pytest.mark.timeout(600)]
MOMENTS = 50
LONGEST_S = 1.5
"""A little more than the whole build takes on a quick machine."""

TEXT = """FROM docker.io/library/debian:bookworm-slim AS other
RUN mkdir /made && seq {number} 5000 > /made/file
FROM docker.io/library/debian:bookworm-slim
RUN echo {number} > /first && rm -rf /usr/share/doc
COPY --from=other /made /made
RUN cp -r /etc /etc-{number} && rm /first && echo {number} > /last
"""


def whole(store: Store, lock: ImageLock, number: int) -> bool:
    root = store.root(lock.digest)
    lines = (root / "made/file").read_text().split()
    return (
        lines == [str(line) for line in range(number, 5001)]
        and (root / "last").read_text() == f"{number}\n"
        and (root / f"etc-{number}/passwd").is_file()
        and (root / "usr/bin/dpkg").is_file()
        and not (root / "usr/share/doc").exists()
        and not (root / "first").exists()
    )


def test_at_fifty_moments(store: Store, tmp_path: Path) -> None:
    seed = random.randrange(1 << 30)
    moments = random.Random(seed)
    folder = tmp_path / "project/containers/image"
    folder.mkdir(parents=True)
    killed = 0
    for number in range(MOMENTS):
        (folder / "Containerfile").write_text(TEXT.format(number=number))
        builder = subprocess.Popen(
            [sys.executable, "-m", "argosy.cli", "image", "build", "image"],
            cwd=tmp_path / "project",
            env={**os.environ, "ARGOSY_STORE": str(store.path)},
            stderr=subprocess.DEVNULL,
        )
        time.sleep(moments.uniform(0.2, LONGEST_S))
        killed += builder.poll() is None
        builder.send_signal(signal.SIGKILL)
        builder.wait()
        for root in (store.path / "roots").glob("sha256-*"):
            # What carries an image's name is complete: it has been put there in one step.
            assert root.suffix == ".json" or (root / "usr/bin/dpkg").is_file(), (seed, number)
        lock = build_image(store, folder, tmp_path / "image.lock", tmp_path / "build.log")
        assert whole(store, lock, number), (seed, number)
    assert killed > MOMENTS / 4, "most builds had ended before they were to be killed"
    assert not list((store.path / "builds").iterdir())
