"""A packed image unpacks to the same tree, or is reported as damaged."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from frozen_images import make_image, make_layer
from trees import describe_tree, make_odd_tree

from argosy_common.disk import remove_tree
from argosy_common.errors import ArgosyError
from argosy_images.archive import packing, unpacking
from argosy_images.archive.packing import pack_image
from argosy_images.archive.unpacking import Index, read_index
from argosy_images.store.lockfile import ImageLock
from argosy_images.store.store import Store

REMEDY = "argosy image pack odd"


@pytest.fixture(autouse=True)
def small_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reduce the size of shares, so that a small image has several."""
    monkeypatch.setattr(packing, "SHARE", 1 << 20)


@pytest.fixture
def own(tmp_path: Path) -> Store:
    return Store(tmp_path / ".argosy")


@pytest.fixture
def image(own: Store, tmp_path: Path) -> ImageLock:
    """Return an image with the odd tree."""
    make_layer(own, "base", {"x": "x"})
    lock = make_image(own, tmp_path, "odd", ["base"])
    remove_tree(own.root(lock.digest))
    make_odd_tree(own.root(lock.digest))
    return lock


def pack(store: Store, lock: ImageLock) -> tuple[Path, Index, list[str]]:
    said: list[str] = []
    path = pack_image(store, lock, said.append)
    return path, read_index(path, lock.digest, REMEDY), said


def test_the_tree_comes_out_as_it_was(own: Store, image: ImageLock, tmp_path: Path) -> None:
    path, index, said = pack(own, image)
    assert len(index.frames) > 3
    assert len(said) == 2
    unpacking.unpack(path, index, tmp_path / "out", REMEDY)
    assert describe_tree(tmp_path / "out") == describe_tree(own.root(image.digest))
    remove_tree(tmp_path / "out")


def test_the_size_is_what_the_tree_takes(own: Store, image: ImageLock) -> None:
    _, index, _ = pack(own, image)
    du = subprocess.run(
        ["du", "--summarize", "--block-size=1", own.root(image.digest)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert index.size == pytest.approx(int(du.stdout.split()[0]), rel=0.02)


def test_it_is_packed_once(own: Store, image: ImageLock) -> None:
    path, _, _ = pack(own, image)
    before = path.stat()
    _, _, said = pack(own, image)
    assert path.stat() == before
    assert said == [f"image odd {image.digest[:19]} is packed in {path}"]


def test_zstd_and_tar_alone_read_it(own: Store, image: ImageLock, tmp_path: Path) -> None:
    path, index, _ = pack(own, image)
    command = 'zstd -dc "$0" | tar -xip --no-same-owner -C "$1"'
    subprocess.run(["sh", "-c", command, path, tmp_path], check=True)
    assert (tmp_path / "many").is_dir()
    assert (tmp_path / "big").stat().st_size == 3_000_000
    assert sum(frame.entries for frame in index.frames) > 200


def cut_off(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) - 100])


def without_its_beginning(path: Path) -> None:
    path.write_bytes(path.read_bytes()[5000:])


def flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    "harm",
    [
        cut_off,
        without_its_beginning,
        lambda path: flip(path, 5000),
        lambda path: flip(path, path.stat().st_size // 2),
        lambda path: flip(path, path.stat().st_size - 100),
        lambda path: flip(path, path.stat().st_size - 1),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(bytes(10_000)),
    ],
)
def test_damage_is_told_and_mended_by_the_remedy(
    own: Store, image: ImageLock, tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    path, _, _ = pack(own, image)
    harm(path)
    with pytest.raises(ArgosyError, match=f"is damaged or cut off; run: {REMEDY}"):
        unpacking.unpack(path, read_index(path, image.digest, REMEDY), tmp_path / "out", REMEDY)
    path, index, _ = pack(own, image)
    unpacking.unpack(path, index, tmp_path / "again", REMEDY)
    assert describe_tree(tmp_path / "again") == describe_tree(own.root(image.digest))
    for name in ("out", "again"):
        remove_tree(tmp_path / name)


def test_other_files_are_told_from_this_image(
    own: Store, image: ImageLock, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, _, _ = pack(own, image)
    with pytest.raises(
        ArgosyError, match=r"contains another image, sha256:.*; run: argosy image pack"
    ):
        read_index(path, "sha256:other", REMEDY)
    with pytest.raises(ArgosyError, match=f"is not packed for the nodes; run: {REMEDY}"):
        read_index(own.archive("sha256:other"), "sha256:other", REMEDY)
    monkeypatch.setattr(unpacking, "VERSION", 2)
    with pytest.raises(ArgosyError, match=r"another version of Argosy \(format 1, not 2\); run: "):
        read_index(path, image.digest, REMEDY)


def test_a_full_disk_is_told_in_tars_words(own: Store, image: ImageLock, tmp_path: Path) -> None:
    path, index, _ = pack(own, image)
    target = tmp_path / "out"
    # A folder in place of a file makes tar fail, as a full disk would.
    real = unpacking._tar

    def with_an_obstacle(folder: Path, held: object) -> object:
        (folder / "big").mkdir(exist_ok=True)
        (folder / "big/x").touch()
        return real(folder, held)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unpacking, "_tar", with_an_obstacle)
        with pytest.raises(ArgosyError, match=r"out: tar: \./big: Cannot open"):
            unpacking.unpack(path, index, target, REMEDY)
    remove_tree(target)


def test_hard_links_stay_together_and_large_files_are_alone() -> None:
    files = [
        packing.File(["a"], 10),
        packing.File(["b", "z"], 10),
        packing.File(["big"], 5 << 20),
        packing.File(["c"], 10),
    ]
    found = [share.names for share in packing.share_out(files)]
    assert found == [("a", "b", "z"), ("big",), ("c",)]


def test_partials_of_the_killed_are_removed(own: Store, image: ImageLock) -> None:
    path = own.archive(image.digest)
    path.parent.mkdir()
    partial = path.with_name(f".{path.name}.abc")
    partial.write_text("x")
    pack(own, image)
    assert list(path.parent.iterdir()) == [path]


def test_an_image_that_is_not_there_is_told(own: Store, image: ImageLock) -> None:
    remove_tree(own.root(image.digest))
    with pytest.raises(
        ArgosyError, match="the image is missing; build it with: argosy image build odd"
    ):
        pack_image(own, image, print)
