"""A step whose files are gone or damaged is built again."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from argosy_images.builder import cache
from argosy_images.rootfs.layers import Change
from argosy_images.store.store import Store

KEY = "1" * 40


def write(store: Store, text: str) -> cache.CachedStep:
    def make(diff: Path) -> Change:
        diff.mkdir()
        (diff / "file").write_text(text)
        return Change(entries=1, size=len(text))

    return cache.write_layer(store, KEY, "RUN x", {}, make)


def without_files(layer: Path) -> None:
    shutil.rmtree(layer / "diff")


def without_description(layer: Path) -> None:
    (layer / "layer.json").unlink()


def cut_off(layer: Path) -> None:
    (layer / "layer.json").write_bytes(b'{"instruction": "\xff')


@pytest.mark.parametrize("damage", [without_files, without_description, cut_off])
def test_a_damaged_step_is_built_again(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    store = Store(tmp_path)
    write(store, "before")
    assert cache.read_step(store, KEY)
    damage(store.layer(KEY))
    assert cache.read_step(store, KEY) is None
    made = write(store, "again")
    assert cache.read_step(store, KEY) == made
    assert (store.layer(KEY) / "diff/file").read_text() == "again"
    assert [path.name for path in store.layer("").iterdir()] == [KEY]


def test_a_step_that_another_build_finished_first_is_used(tmp_path: Path) -> None:
    store = Store(tmp_path)
    first = write(store, "first")
    assert write(store, "second") == first
    assert (store.layer(KEY) / "diff/file").read_text() == "first"
