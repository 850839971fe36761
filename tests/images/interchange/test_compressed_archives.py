"""Archives compressed as a whole are decompressed once, and cannot fill the disk."""

import bz2
import gzip
import io
import lzma
import random
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from argosy_common.errors import ArgosyError
from argosy_images.interchange import streams
from argosy_images.interchange.opening import Archive, opened
from argosy_images.interchange.streams import silent

CONTENTS = {f"layer-{number}": random.Random(number).randbytes(300_000) for number in range(6)}


def tar(contents: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in contents.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), 0
            archive.addfile(info, io.BytesIO(content))
        for kind, name in ((tarfile.SYMTYPE, "symbolic"), (tarfile.LNKTYPE, "hard")):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "layer-3"
            archive.addfile(info)
    return buffer.getvalue()


class Packed:
    """A compressed archive, and a folder for its extracted files."""

    def __init__(self, place: Path, content: bytes) -> None:
        self.file = place / "image.tar.gz"
        self.file.write_bytes(content)
        self.work = place / "work"

    def read(self, look: Callable[[Archive], object], say: Callable[[str], None] = silent) -> None:
        with opened(self.file, self.work, say) as archive:
            look(archive)

    def refuses(self, why: str) -> None:
        with pytest.raises(ArgosyError, match=why) as problem:
            self.read(lambda _: None)
        assert str(problem.value).startswith(f"{self.file}: ")


@pytest.mark.parametrize(
    "pack",
    [gzip.compress, bz2.compress, lzma.compress, zstandard.compress],
    ids=lambda pack: pack.__module__,
)
def test_layers_are_read_in_any_order_and_again(
    tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    def look(archive: Archive) -> None:
        for name in [*reversed(CONTENTS), *CONTENTS]:
            with archive.open(name) as stream:
                assert stream.read() == CONTENTS[name]
        for name in ("symbolic", "hard"):
            with archive.open(name) as stream:
                assert stream.read() == CONTENTS["layer-3"]
        with pytest.raises(ArgosyError, match="'layer-9' is missing"):
            archive.open("layer-9")

    Packed(tmp_path, pack(tar(CONTENTS))).read(look)


def test_it_is_decompressed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = tar(CONTENTS)
    read: list[int] = []

    class Counted(gzip.GzipFile):
        def read(self, size: int | None = -1) -> bytes:
            data = super().read(size)
            read.append(len(data))
            return data

    packed = Packed(tmp_path, gzip.compress(whole))
    monkeypatch.setattr(gzip, "GzipFile", Counted)
    packed.read(lambda archive: [archive.open(name).close() for name in reversed(CONTENTS)])
    assert sum(read) == len(whole)


def test_how_much_is_read_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "SAY_EVERY_S", 0.0)
    packed = Packed(tmp_path, gzip.compress(tar(CONTENTS)))
    said: list[str] = []
    packed.read(lambda _: None, said.append)
    assert len(said) >= len(CONTENTS)
    assert said[-1] == f"{packed.file}: 1.72 MiB of 1.72 MiB decompressed"


def test_what_would_fill_the_disk_is_refused_before_it_is_written(tmp_path: Path) -> None:
    """The header has the member's size, so no terabytes of zeros are decompressed."""
    huge = tarfile.TarInfo("huge")
    huge.size = 20 << 40
    start = huge.tobuf(tarfile.GNU_FORMAT) + bytes(1 << 20)
    packed = Packed(tmp_path, gzip.compress(start))
    packed.refuses("'huge': 20 TiB do not fit: ")
    assert [*packed.work.iterdir()] == []


def test_what_follows_an_archive_is_not_decompressed(tmp_path: Path) -> None:
    """Endless zeros, compressed to a thousandth, cost neither time nor disk."""
    zeros = gzip.compress(bytes(1 << 20))
    Packed(tmp_path, gzip.compress(tar(CONTENTS)) + zeros * 3 + b"no gzip").read(lambda _: None)
