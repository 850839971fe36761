"""The inventory of a store, and its sizes on disk."""

import os
import subprocess
import sys
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
from frozen_images import make_image, make_layer, unlock
from rich.console import Console

from argosy.cli.image_tables import ago, of_inventory
from argosy_common.disk import remove_tree
from argosy_common.errors import ArgosyError
from argosy_common.units import amount
from argosy_images.archive.packing import pack_image
from argosy_images.gc.inventory import Inventory, find_layers, freed, measure, total
from argosy_images.store.lockfile import ImageLock, LockedBase
from argosy_images.store.store import Store

BIG = "x" * 100_000
BASE = "docker.io/library/debian:bookworm-slim"


@pytest.fixture
def own(tmp_path: Path) -> Store:
    return Store(tmp_path / ".argosy")


def two_images(store: Store, project: Path) -> tuple[ImageLock, ImageLock]:
    make_layer(store, "base", {"usr/big": BIG})
    make_layer(store, "one", {"one": "1"})
    make_layer(store, "two", {"two": "2"})
    make_layer(store, "stage", {"compiler": BIG})
    first = make_image(store, project, "first", ["base", "one"])
    return first, make_image(store, project, "second", ["base", "two"])


def du(*paths: Path) -> int:
    """Measure bytes by du(1), which counts hard links once."""
    found = subprocess.run(
        ["du", "--block-size=1", "--summarize", "--total", *paths],
        capture_output=True,
        text=True,
        check=True,
    )
    return int(found.stdout.splitlines()[-1].split()[0])


def test_sizes_count_files_of_several_names_once(own: Store, tmp_path: Path) -> None:
    two_images(own, tmp_path)
    inventory = Inventory.of(own)
    places = [*own.root("").iterdir(), *own.layer("").iterdir()]
    assert total(inventory.usages) == du(*places)
    # The base's file has three names, and counts once.
    assert sum(total([usage]) for usage in inventory.usages) > total(inventory.usages) + 150_000


def test_what_would_be_free_is_what_has_no_name_elsewhere(own: Store, tmp_path: Path) -> None:
    two_images(own, tmp_path)
    base, roots = own.layer("base"), own.root("")
    assert freed([measure(base)]) < 20_000
    assert freed([measure(base), measure(roots)]) > len(BIG)


def test_layers_are_known_as_shared_or_used_by_nobody(own: Store, tmp_path: Path) -> None:
    first, _ = two_images(own, tmp_path)
    inventory = Inventory.of(own)
    image = next(image for image in inventory.images if image.digest == first.digest)
    assert inventory.shared(image) == {first.steps[0].diff_id}
    assert [layer.key for layer in inventory.unused] == ["stage"]
    assert len(BIG) < freed(layer.usage for layer in inventory.unused) < len(BIG) + 30_000


def test_the_table_names_what_is_there(own: Store, tmp_path: Path) -> None:
    first, _ = two_images(own, tmp_path)
    text = shown(own)
    assert first.digest.removeprefix("sha256:")[:12] in text
    assert "1 own, 1 shared" in text
    assert "just now" in text
    assert "cache of steps: 4 layers" in text
    assert "in unused layers (1)" in text
    assert "unreadable" not in text
    diff = own.layer("base") / "diff"
    diff.chmod(0)
    assert "; unreadable layers, not counted: 1" in shown(own)
    diff.chmod(0o700)


def test_the_table_can_be_read_at_80_columns(own: Store, tmp_path: Path) -> None:
    two_images(own, tmp_path)
    inventory = Inventory.of(own)
    images = tuple(
        replace(image, lock=image.lock.model_copy(update={"name": name, "base": base}))
        for name, image in zip(("tensorflow-cuda", "two"), inventory.images, strict=True)
        for base in [LockedBase(reference=f"{BASE}@sha256:0", source="registry", diff_id="")]
        if image.lock
    )
    console = Console(width=80)
    with console.capture() as captured:
        console.print(*of_inventory(replace(inventory, images=images)), sep="\n")
    lines = captured.get().splitlines()
    assert max(map(len, lines)) <= 80
    digest = images[0].digest.removeprefix("sha256:")[:12]
    today = f"{datetime.fromtimestamp(images[0].built):%Y-%m-%d}"
    [row] = [number for number, line in enumerate(lines) if "tensorflow-cuda" in line]
    words = " ".join(lines[row : row + 3]).split()
    assert words[:3] == ["tensorflow-cuda", digest, "debian:bookworm-slim"]
    assert {"own,", "shared", f"{today},", "just", "now"} <= set(words)


def test_in_a_pipe_each_image_is_a_line(own: Store, tmp_path: Path) -> None:
    first, _ = two_images(own, tmp_path)
    listed = subprocess.run(
        [sys.executable, "-m", "argosy.cli", "image", "list"],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if name != "COLUMNS"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    [line] = [line for line in listed.splitlines() if "first" in line]
    assert line.split()[1] == first.digest.removeprefix("sha256:")[:12]
    assert "1 own, 1 shared" in line
    assert "just now" in line
    assert "\x1b" not in listed


def test_packed_images_are_counted(own: Store, tmp_path: Path) -> None:
    first, _ = two_images(own, tmp_path)
    before = total(Inventory.of(own).usages)
    path = pack_image(own, first, print)
    assert total(Inventory.of(own).usages) == before + du(path)
    assert f"packed for nodes that unpack them: 1 image, {amount(du(path))}" in shown(own)


def test_an_empty_store_and_a_damaged_one_are_told(own: Store, tmp_path: Path) -> None:
    assert "no image has been built" in shown(own)
    first, _ = two_images(own, tmp_path)
    own.description(first.digest).write_text("{}")
    (own.layer("one") / "layer.json").write_text("")
    assert "from another version of Argosy, or damaged" in shown(own)


def test_the_layers_of_an_image_are_found_in_their_order(own: Store, tmp_path: Path) -> None:
    first, _ = two_images(own, tmp_path)
    assert [key for key, _, _ in find_layers(own, first)] == ["base", "one"]
    remove_tree(own.layer("one"))
    with pytest.raises(ArgosyError, match=r"'COPY one /' is not in .*argosy image build first"):
        find_layers(own, first)
    unlock(tmp_path, "first")


def shown(store: Store) -> str:
    console = Console(width=200)
    with console.capture() as captured:
        console.print(*of_inventory(Inventory.of(store)), sep="\n")
    return captured.get()


def test_amounts_and_spans_in_words() -> None:
    words = [amount(size) for size in (0, 512, 2048, 1_600_000, 3 << 30)]
    assert words == ["0 B", "512 B", "2 KiB", "1.53 MiB", "3 GiB"]
    assert [ago(seconds) for seconds in (3, 200, 100_000)] == ["just now", "3m ago", "1d ago"]
