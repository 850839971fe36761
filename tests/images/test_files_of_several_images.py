"""Images share files: reading one while another is frozen or removed, and detection of real changes."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from frozen_images import make_image, make_layer

from argosy_common.disk import remove_tree
from argosy_common.errors import ArgosyError
from argosy_images.archive.packing import pack_image
from argosy_images.builder import cache
from argosy_images.interchange.exporting import export_image
from argosy_images.rootfs.flatten import flatten
from argosy_images.store.lockfile import ImageLock
from argosy_images.store.store import Store

FILES = {f"usr/{number}": "x" * 200_000 for number in range(200)}


@pytest.fixture
def own(tmp_path: Path) -> Store:
    return Store(tmp_path / ".argosy")


@pytest.fixture
def image(own: Store, tmp_path: Path) -> ImageLock:
    """A frozen image with one layer of 200 files."""
    make_layer(own, "base", FILES)
    return make_image(own, tmp_path, "image", ["base"])


@contextmanager
def meanwhile(action: Callable[[int], None]) -> Iterator[list[int]]:
    """Repeat an action in another thread; yield the numbers of the repetitions."""
    done: list[int] = []
    first, over = threading.Event(), threading.Event()

    def repeat() -> None:
        while not over.is_set():
            action(len(done))
            done.append(len(done))
            first.set()

    thread = threading.Thread(target=repeat)
    thread.start()
    assert first.wait(60)
    try:
        yield done
    finally:
        over.set()
        thread.join()


def exported(store: Store, image: ImageLock, target: Path) -> bytes:
    export_image(store, image, target)
    return target.read_bytes()


def packed(store: Store, image: ImageLock, target: Path) -> bytes:
    assert not target.exists()
    return pack_image(store, image, print).read_bytes()


Reader = Callable[[Store, ImageLock, Path], bytes]


@pytest.mark.parametrize("read", [exported, packed])
def test_another_image_on_the_same_layers_may_come_and_go(
    own: Store, image: ImageLock, tmp_path: Path, read: Reader
) -> None:
    alone = read(own, image, tmp_path / "file")
    (tmp_path / "file").unlink(missing_ok=True)
    own.archive(image.digest).unlink(missing_ok=True)
    layers = [cache.read_layer(own, "base")]

    def freeze_and_remove(number: int) -> None:
        flatten(layers, tmp_path / f"other-{number}", frozen=True)
        remove_tree(tmp_path / f"other-{number}")

    with meanwhile(freeze_and_remove) as done:
        before = len(done)
        beside = read(own, image, tmp_path / "file")
        assert len(done) > before, "nothing was frozen while the image was read"
    assert beside == alone


@pytest.mark.parametrize("read", [exported, packed])
def test_a_file_that_changes_is_found_beside_second_names(
    own: Store, image: ImageLock, tmp_path: Path, read: Reader
) -> None:
    file = own.layer("base") / "diff" / "usr" / "150"

    def change(number: int) -> None:
        # Same length, and one hard link more or less each time.
        with file.open("r+") as stream:
            stream.write(f"{number % 10}")
        (tmp_path / f"name-{number}").hardlink_to(file)

    with meanwhile(change):
        # On a busy machine, the change may come before the read: refused, too.
        for _ in range(10):
            with pytest.raises(ArgosyError) as refused:
                read(own, image, tmp_path / "file")
            if "usr/150: this file changed while" in str(refused.value):
                break
        else:
            pytest.fail(f"never found to change while it was read: {refused.value}")
    assert not (tmp_path / "file").exists()
    assert not own.archive(image.digest).exists()
