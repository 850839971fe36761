"""Hostile archives: each gives an image or a one-line error, and nothing else changes."""

import gzip
import json
import lzma
import os
import random
import resource
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from hostile_archives import (
    BLOCK,
    chained,
    header,
    hostile_tar,
    negative,
    padded,
    pax,
    sha256,
    sparse_0_0,
    sparse_0_1,
    sparse_1_0,
    sparse_old,
    sparse_old_begin,
    sparse_without_end,
    write_image,
)

from argosy_common import disk
from argosy_common.errors import ArgosyError
from argosy_images.interchange import members, opening, unpacking
from argosy_images.interchange.importing import import_image
from argosy_images.interchange.incoming import MOST_MANIFESTS
from argosy_images.store.store import Store

ARCHIVES = 300
MOST_MEMORY = 256 << 20
"""Maximum additional bytes of this process and its children."""
LONGEST_S = 20
"""Time limit of one archive; most take hundredths of a second."""

TERABYTES = 20 << 40


class Host:
    """A project, and files outside that must not change."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.project = place / "project"
        self.store = Store(self.project / ".argosy")
        self.file = place / "image.tar"
        self.outside = place / "outside"
        (self.outside / "folder").mkdir(parents=True)
        (self.outside / "secret").write_text("secret")
        (self.outside / "folder/link").symlink_to("../secret")
        os.mkfifo(self.outside / "pipe")
        self.before = self.around()

    def around(self) -> dict[str, tuple[object, ...]]:
        """Return content, mode, links and times of all files outside of the store and the archive."""
        found: dict[str, tuple[object, ...]] = {}
        for path in [self.outside, *self.outside.rglob("*")]:
            status = path.lstat()
            content = path.read_bytes() if path.is_file() else b""
            found[str(path)] = (
                *(status.st_mode, status.st_nlink, status.st_mtime_ns, status.st_ctime_ns),
                *(status.st_ino, content),
            )
        return found

    def take(self) -> str:
        """Import the archive; return the one-line error, or an empty text."""
        began = time.monotonic()
        try:
            lock = import_image(self.store, self.project, self.file, "image")
            assert self.store.root(lock.digest).is_dir()
            said = ""
        except ArgosyError as problem:
            said = str(problem)
            assert said.startswith(f"{self.file}: "), said
            assert "\n" not in said
            assert said.isprintable(), repr(said)
            assert len(said) < 3000
        assert time.monotonic() - began < LONGEST_S
        assert self.around() == self.before
        assert {path.name for path in self.place.iterdir()} <= {"project", "image.tar", "outside"}
        assert {path.name for path in self.project.iterdir()} <= {".argosy", "resources"}
        assert not any(self.store.path.glob("builds/*"))
        return said

    def refuses_layer(self, layer: bytes, why: str) -> None:
        write_image(self.file, _Plain(), [layer])
        said = self.take()
        assert why in said
        # An exceeded limit is not called damage.
        assert not ("more than" in said and "damaged" in said)
        assert not any(self.store.path.glob("layers/*"))


class _Plain(random.Random):
    """A generator of random numbers that never triggers damage."""

    def random(self) -> float:
        return 0.999


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def peak() -> int:
    """Return the peak memory of this process and its children, in bytes."""
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return max(resource.getrusage(kind).ru_maxrss for kind in kinds) * 1024


@pytest.mark.thorough
@pytest.mark.slow
def test_a_few_hundred_archives_are_images_or_one_line(host: Host) -> None:
    good = 0
    before = peak()
    for seed in range(ARCHIVES):
        choice = random.Random(seed)
        layers = [hostile_tar(choice, host.outside) for _ in range(choice.randrange(1, 4))]
        write_image(host.file, choice, layers)
        if choice.random() < 0.25:
            pack = choice.choice((gzip.compress, lzma.compress, zstandard.compress))
            host.file.write_bytes(pack(host.file.read_bytes()))
        try:
            good += not host.take()
        except Exception as problem:
            raise AssertionError(f"seed {seed}: {problem!r}") from problem
    # The seeds must give both images and errors.
    assert ARCHIVES / 50 < good < ARCHIVES / 2
    assert peak() - before < MOST_MEMORY


@pytest.mark.parametrize("make", [sparse_1_0, sparse_0_1, sparse_0_0, sparse_old])
def test_a_sparse_file_of_a_few_bytes_fills_no_disk(
    host: Host, make: Callable[[int], bytes]
) -> None:
    host.refuses_layer(make(TERABYTES) + bytes(2 * BLOCK), "'huge': 20 TiB do not fit: ")
    # Holes are allocated, so many small files cannot exceed the disk either.
    write_image(host.file, _Plain(), [make(1 << 20) + bytes(2 * BLOCK)])
    assert host.take() == ""
    [made] = host.store.path.glob("layers/*/diff/huge")
    assert made.stat().st_size == 1 << 20 <= made.stat().st_blocks * 512
    # The archive itself must not have sparse files, which would take forever to read.
    host.file.write_bytes(make(TERABYTES) + bytes(2 * BLOCK))
    assert host.take() == f"{host.file}: it contains a sparse file, which only layers may have"
    # The same holds for compressed archives.
    host.file.write_bytes(gzip.compress(make(TERABYTES) + bytes(2 * BLOCK)))
    assert "it contains a sparse file" in host.take()


def test_holes_of_many_files_are_counted_together(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpacking, "MOST_HOLES", 3 << 20)
    several = sparse_1_0(1 << 20) * 3
    host.refuses_layer(several + sparse_old(1) + bytes(2 * BLOCK), "more than 3 MiB of holes")
    write_image(host.file, _Plain(), [several + bytes(2 * BLOCK)])
    assert host.take() == ""


def test_a_list_of_holes_without_end_comes_to_one(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.refuses_layer(sparse_without_end(), "unexpected end of data")
    monkeypatch.setattr(members, "MOST_PIECES", 1000)
    begun = sparse_without_end() + bytes(BLOCK)
    host.refuses_layer(begun, "a sparse file of more than 1,000 pieces")
    endless = sparse_old_begin() + (bytes(504) + b"\1" + bytes(7)) * 60
    host.refuses_layer(endless, "a sparse file of more than 1,000 pieces")
    nonsense = sparse_without_end()[: -len("999999\n1\n0\n")]
    host.refuses_layer(nonsense + b"1" * 5000, "without a map of its pieces")


@pytest.mark.parametrize(
    "places", ["0,5,3,9", "9,1,0,1", "0,-5", "-5,9", "0,99", "90,20", "0,9,8,1"]
)
def test_pieces_of_a_sparse_file_lie_one_after_the_other(host: Host, places: str) -> None:
    records = [("GNU.sparse.map", places), ("GNU.sparse.size", "90")]
    layer = pax(records) + header("a", size=9) + padded(b"123456789") + bytes(2 * BLOCK)
    host.refuses_layer(layer, "it contains a sparse file that cannot be read")


def test_content_that_is_left_out_is_not_read_for_ever(host: Host) -> None:
    """A header can claim any size for skipped members: removals, AUFS files and unknown types."""
    for size in (TERABYTES, 1 << 26):
        for name in (".wh.a", "a/.wh..wh.opq", ".wh..wh.aufs", ".wh..wh.plnk/1"):
            began = header(name, size=size) + bytes(2 * BLOCK)
            why = "20 TiB do not fit" if size == TERABYTES else "unexpected end of data"
            host.refuses_layer(began, why)
    whole = header("a", b"D", TERABYTES) + bytes(2 * BLOCK)
    host.refuses_layer(whole, "has a type that layers cannot contain")
    host.file.write_bytes(gzip.compress(whole))
    assert "'a': 20 TiB do not fit" in host.take()


def test_pieces_that_are_longer_than_what_is_there_end_the_tar(host: Host) -> None:
    records = [("GNU.sparse.map", "0,900"), ("GNU.sparse.size", "2000")]
    layer = (
        pax(records) + header("a", size=9) + padded(b"123456789") + header("b") + bytes(2 * BLOCK)
    )
    host.refuses_layer(layer, "damaged or cut off: ")


@pytest.mark.parametrize("kind", [b"x", b"g", b"X", b"L", b"K"])
def test_headers_in_a_chain_are_refused(host: Host, kind: bytes) -> None:
    for number in (members.MOST_CHAINED + 1, 5000):
        layer = chained(kind, number) + bytes(2 * BLOCK)
        host.refuses_layer(
            layer, f": it contains more than {members.MOST_CHAINED} headers for one file"
        )
        # The same holds for the outer archive.
        host.file.write_bytes(layer)
        assert f"more than {members.MOST_CHAINED} headers for one file" in host.take()
    write_image(host.file, _Plain(), [chained(b"L", 2) + bytes(2 * BLOCK)])
    assert host.take() == ""


def test_headers_for_all_members_do_not_add_up(host: Host) -> None:
    one = pax([(f"key{number}", "x" * 40) for number in range(900)], b"g") + header("a")
    host.refuses_layer(one * 10 + bytes(2 * BLOCK), "a header that is too long")


def test_members_without_end_come_to_one(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(members, "MOST_MEMBERS", 1000)
    removed = b"".join(header(f".wh.{number}") for number in range(1001))
    host.refuses_layer(removed + bytes(2 * BLOCK), "it contains more than 1,000 files")


@pytest.mark.parametrize("size", ["-1", "-1024"])
def test_a_negative_size_does_not_turn_back(host: Host, size: str) -> None:
    layer = pax([("size", size)]) + header("a") + bytes(2 * BLOCK)
    host.refuses_layer(layer, "a negative size")
    host.file.write_bytes(layer)
    assert "a negative size" in host.take()
    host.file.write_bytes(negative(int(size)) + bytes(2 * BLOCK))
    assert "a negative size" in host.take()


def test_folders_alone_do_not_fill_the_disk(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    found = os.statvfs(host.outside)
    monkeypatch.setattr(disk, "RESERVE", found.f_bavail * found.f_frsize + (1 << 30))
    host.refuses_layer(header("folder", b"5") + bytes(2 * BLOCK), "'folder': 4 KiB do not fit: ")


def test_an_archive_of_endless_zeros_ends(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacking, "MOST_AFTER_END", 1 << 20)
    layer = header("a") + bytes(4 << 20)
    host.refuses_layer(layer, "more than 1 MiB follow its end")


def test_indexes_that_name_each_other_come_to_an_end(host: Host) -> None:
    """A few thousand bytes describe 1,000 entries per index, four levels deep."""
    layout = host.place / "project" / "layout"
    (layout / "blobs/sha256").mkdir(parents=True)
    inner = b'{"manifests": []}'
    for _ in range(4):
        digest = sha256(inner)
        (layout / "blobs" / digest.replace(":", "/")).write_bytes(inner)
        inner = json.dumps({"manifests": [{"digest": digest}] * (MOST_MANIFESTS - 1)}).encode()
    (layout / "index.json").write_bytes(inner)
    began = time.monotonic()
    with pytest.raises(ArgosyError, match=r"names more than 1,000 manifests"):
        import_image(host.store, host.project, layout, "image")
    assert time.monotonic() - began < LONGEST_S


def test_a_folder_of_files_is_no_archive(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "MOST_FILES", 1000)
    many = b"".join(header(f"f{number}") for number in range(1001)) + bytes(1024)
    for content in (many, gzip.compress(many)):
        host.file.write_bytes(content)
        assert "more than 1,000 files" in host.take()
