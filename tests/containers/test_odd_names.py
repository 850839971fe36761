"""Names that are not UTF-8, or have line breaks, in the image's folder, in steps, archives and messages."""

import os
from pathlib import Path

import pytest
from image_programs import BASE, built

from argosy_images.builder.builder import Plan
from argosy_images.interchange.exporting import export_image
from argosy_images.interchange.importing import import_image
from argosy_images.store.lockfile import ImageLock
from argosy_images.store.store import Store

pytestmark = pytest.mark.container

ODD = (b"caf\xe9", b"caf\xe9.d", b"new\nline", rb"caf\xe9", b"n" * 255)
STEPS = f"""{BASE}
COPY d /d
RUN cd /d && cp /bin/ls "$(printf 'set\\351')" && chmod 4755 set*
RUN cd /d && rm "$(printf 'caf\\351')" && rm -r caf*.d && mkdir "$(printf 'caf\\351.d')"
COPY d/caf* /e/
"""


def names(root: Path) -> dict[str, list[bytes]]:
    return {place: sorted(os.listdir(os.fsencode(root / place))) for place in ("d", "e")}  # noqa: PTH208


def test_files_of_any_name_are_copied_removed_and_carried(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "image"
    (folder / "d").mkdir(parents=True)
    for name in ODD:
        place = folder / "d" / os.fsdecode(name)
        if name.endswith(b".d"):
            place.mkdir()
            place = place / "inner"
        place.write_text("x")
    lock = built(store, folder, STEPS)
    found = names(store.root(lock.digest))
    assert found["d"] == sorted([*(each for each in ODD if each != b"caf\xe9"), b"set\xe9"])
    assert not os.listdir(store.root(lock.digest) / os.fsdecode(b"d/caf\xe9.d"))  # noqa: PTH208
    assert found["e"] == sorted([b"caf\xe9", rb"caf\xe9", b"inner"])

    # Both names count, and reasons name the file that has changed.
    assert not Plan.of(store, folder).missing()
    (folder / "d" / os.fsdecode(b"caf\xe9")).write_text("changed")
    reasons = [why for finding in Plan.of(store, folder).explain() for why in finding.reasons]
    assert reasons.count(r"file d/caf\xe9 (not UTF-8) changed") == 2
    assert not any("is new" in why or "is gone" in why for why in reasons)

    archive = tmp_path / "image.tar"
    export_image(store, lock, archive)
    other = Store(tmp_path / "other")
    again: ImageLock = import_image(other, tmp_path / "project", archive, "again")
    assert again.digest == lock.digest
    assert names(other.root(again.digest)) == found
    export_image(other, again, tmp_path / "again.tar")
