"""ADD detects archives by content, not by name, as Docker does."""

import bz2
import gzip
import io
import lzma
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from registries import Answer, digest_of, serving
from zstandard import ZstdCompressor

from argosy_common.errors import ArgosyError
from argosy_images.builder.copying import Copier
from argosy_images.builder.recipe import nothing_known, plan
from argosy_images.rootfs.rooted import Root


def tar(*members: tuple[str, bytes], kind: int = tarfile.GNU_FORMAT) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=kind) as archive:
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return out.getvalue()


PLAIN = tar(("file", b"text"))
LONG = "n" * 150
PACKED: dict[str, bytes] = {
    "bundle": gzip.compress(PLAIN),
    "b.tbz": bz2.compress(PLAIN),
    "b.tar.zst": ZstdCompressor().compress(PLAIN),
    "b.txt": lzma.compress(PLAIN),
    "two.tar.gz": gzip.compress(PLAIN[:100]) + gzip.compress(PLAIN[100:]),
    "pax.zip": tar((LONG, b""), ("file", b"text"), kind=tarfile.PAX_FORMAT),
    "gnu": tar((LONG, b""), ("file", b"text")),
    "plain.gz": PLAIN,
}
COPIED: dict[str, bytes] = {
    "notes.tar.gz": b"a text\n",
    "empty.tar.gz": b"",
    "text.tar": gzip.compress(b"a text\n" * 200),
    "cut.tgz": gzip.compress(PLAIN)[:12],
    "zeros.tar": bytes(10240),
    "short.tar": PLAIN[:300],
    "broken.tar": b"x" + PLAIN[1:],
    "zstd.tar": b"\x28\xb5\x2f\xfd" + b"x" * 600,
    "xz.tar": b"\xfd7zXZ\0" + b"x" * 600,
    "bzip2.tar": b"BZh" + b"x" * 600,
    "gzip.tar": b"\x1f\x8b" + b"x" * 600,
}


def add(tmp_path: Path, files: dict[str, bytes], line: Callable[[str], str]) -> Path:
    image, root = tmp_path / "image", tmp_path / "root"
    image.mkdir()
    root.mkdir()
    for name, content in files.items():
        (image / name).write_bytes(content)
    lines = [line(name) for name in files]
    (image / "Containerfile").write_text("\n".join(["FROM base", *lines, ""]))
    with Root(root) as tree:
        for step in plan(image, nothing_known).final.steps[1:]:
            Copier(step, tree, None, tmp_path / "aside").run()
    return root


def test_an_archive_of_any_name_is_unpacked(tmp_path: Path) -> None:
    root = add(tmp_path, PACKED, lambda name: f"ADD {name} /{name}.d/")
    for name in PACKED:
        assert (root / f"{name}.d/file").read_text() == "text", name
        assert not (root / f"{name}.d/{name}").exists()


def test_what_is_no_archive_is_copied(tmp_path: Path) -> None:
    root = add(tmp_path, COPIED, lambda name: f"ADD {name} /{name}.d/")
    for name, content in COPIED.items():
        assert (root / f"{name}.d/{name}").read_bytes() == content, name


def test_copy_unpacks_nothing(tmp_path: Path) -> None:
    root = add(tmp_path, PACKED, lambda name: f"COPY {name} /")
    for name, content in PACKED.items():
        assert (root / name).read_bytes() == content


@pytest.mark.parametrize(
    "packed",
    [PLAIN[:514], gzip.compress(tar(("file", bytes(9999))))[:-20]],
    ids=["plain", "compressed"],
)
def test_an_archive_that_is_cut_off_is_an_error(tmp_path: Path, packed: bytes) -> None:
    with pytest.raises(ArgosyError, match=r"Containerfile:2: ADD: a cannot be unpacked: "):
        add(tmp_path, {"a": packed}, lambda name: f"ADD {name} /")


@pytest.mark.parametrize(
    ("address", "target", "name"),
    [
        ("files/data.tgz?download=1", "/d/", "d/data.tgz"),
        ("files/data.tgz#part", "/d/", "d/data.tgz"),
        ("files/my%20data%C3%A4/", "/d/", "d/my dataä"),
        ("files/a%2Fb", "/d/", "d/b"),
        ("?id=7", "/d/file", "d/file"),
    ],
)
def test_a_download_has_the_name_in_its_path(
    tmp_path: Path, address: str, target: str, name: str
) -> None:
    with serving(lambda *_: Answer(200, {}, b"text")) as server:
        line = f"ADD --checksum={digest_of(b'text')} http://{server.address}/{address} {target}"
        root = add(tmp_path, {"x": b""}, lambda _: line)
    assert [str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()] == [name]


def test_an_address_without_a_name_needs_a_target_file(tmp_path: Path) -> None:
    with serving(lambda *_: Answer(200, {}, b"text")) as server:
        line = f"ADD --checksum={digest_of(b'text')} http://{server.address}/?id=7 /d/"
        with pytest.raises(ArgosyError, match=r"Containerfile:2: ADD: .* has no file name: .* /d/"):
            add(tmp_path, {"x": b""}, lambda _: line)
