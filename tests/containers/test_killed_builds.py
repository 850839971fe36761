"""A build killed at any moment leaves an intact store."""

import random
from pathlib import Path

import pytest
from killed_builds import Builds

from argosy_images.builder.builder import build_image
from argosy_images.store.lockfile import ImageLock
from argosy_images.store.store import Store

pytestmark = [pytest.mark.thorough, pytest.mark.container, pytest.mark.timeout(1200)]

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


def test_at_random_moments(store: Store, tmp_path: Path, moments: int) -> None:
    seed = random.randrange(1 << 30)
    chance = random.Random(seed)
    folder = tmp_path / "project/containers/image"
    folder.mkdir(parents=True)
    builds = Builds(tmp_path / "project", store.path)
    containerfile = folder / "Containerfile"
    times = []
    for number in range(moments, moments + 3):
        # The first build fetches the base, the others find it.
        containerfile.write_text(TEXT.format(number=number))
        times.append(builds.whole())
    killed = 0
    for number in range(moments):
        containerfile.write_text(TEXT.format(number=number))
        killed += builds.killed(min(times), chance)
        for root in (store.path / "roots").glob("sha256-*"):
            # Frozen trees are moved into place complete.
            assert root.suffix == ".json" or (root / "usr/bin/dpkg").is_file(), (seed, number)
        lock = build_image(store, folder, tmp_path / "image.lock", tmp_path / "build.log")
        assert whole(store, lock, number), (seed, number)
    assert killed > moments / 4, "most builds had ended before they were to be killed"
    assert not list((store.path / "builds").iterdir())
