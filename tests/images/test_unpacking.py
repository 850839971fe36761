"""Untrusted archives: valid content is unpacked; unsafe content is refused and leaves nothing."""

import bz2
import gzip
import hashlib
import io
import json
import lzma
import os
import random
import shutil
import stat
import subprocess
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import zstandard

from argosy_common import disk
from argosy_common.errors import ArgosyError
from argosy_images.interchange.importing import import_image, take_image
from argosy_images.interchange.streams import Hashing
from argosy_images.interchange.unpacking import unpack
from argosy_images.oci import architecture
from argosy_images.rootfs.archive import digest_of_layer, layer_tar
from argosy_images.rootfs.layers import Change, Layer, is_opaque, is_whiteout
from argosy_images.store.lockfile import ImageLock
from argosy_images.store.store import Store

Fields = Mapping[str, Any]


def member(name: str, content: bytes = b"", **fields: Any) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for field, value in fields.items():
        setattr(info, field, value)
    return info, content


def folder(name: str, **fields: Any) -> tuple[tarfile.TarInfo, bytes]:
    return member(name, type=tarfile.DIRTYPE, mode=fields.pop("mode", 0o755), **fields)


def symlink(name: str, target: str) -> tuple[tarfile.TarInfo, bytes]:
    return member(name, type=tarfile.SYMTYPE, linkname=target)


def hardlink(name: str, target: str) -> tuple[tarfile.TarInfo, bytes]:
    return member(name, type=tarfile.LNKTYPE, linkname=target)


def tar(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for info, content in members:
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def end_of(content: bytes) -> int:
    """Return the offset of the zeros that end a tar."""
    return -(-len(content.rstrip(b"\0")) // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE


def sha256(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def take(diff: Path, content: bytes, below: list[Layer] | None = None) -> Change:
    return unpack(Hashing(io.BytesIO(content)), diff, below or [], "x.tar: layer")


class Project:
    """A project with imported images, and a file outside that must not change."""

    def __init__(self, place: Path) -> None:
        self.folder = place / "project"
        self.store = Store(self.folder / ".argosy")
        self.file = place / "image.tar"
        self.outside = place / "outside"
        self.outside.mkdir()
        (self.outside / "secret").write_text("secret")

    def take(self, name: str = "image") -> ImageLock:
        return import_image(self.store, self.folder, self.file, name)

    def write_docker(self, *layers: bytes, **config: Any) -> None:
        """Write an archive as `docker save` does."""
        whole = {**configuration(layers), **config}
        blob = json.dumps(whole).encode()
        names = [f"{number}/layer.tar" for number in range(len(layers))]
        name = f"{sha256(blob).removeprefix('sha256:')}.json"
        manifest = [{"Config": name, "RepoTags": ["an/image:1"], "Layers": names}]
        files = {name: blob, **dict(zip(names, layers, strict=True))}
        self.write({**files, "manifest.json": json.dumps(manifest).encode()})

    def write_oci(
        self, *layers: bytes, pack: Callable[[bytes], bytes] = bytes, platforms: bool = False
    ) -> None:
        """Write an OCI archive; with `platforms`, an index of two platforms."""
        packed = [pack(layer) for layer in layers]
        blobs = {sha256(blob): blob for blob in packed}

        def add(value: Any) -> dict[str, Any]:
            blob = json.dumps(value).encode()
            blobs[sha256(blob)] = blob
            return {"digest": sha256(blob), "size": len(blob)}

        config = add(configuration(layers))
        described = [{"digest": sha256(blob), "size": len(blob)} for blob in packed]
        manifest = add({"config": config, "layers": described})
        if platforms:
            other = add({"config": config, "layers": []})
            both = [
                {**other, "platform": {"os": "linux", "architecture": "s390x"}},
                {**manifest, "platform": {"os": "linux", "architecture": architecture()}},
            ]
            manifest = add({"manifests": both})
        index = {"manifests": [manifest]}
        files = {f"blobs/{name.replace(':', '/')}": blob for name, blob in blobs.items()}
        self.write({**files, "index.json": json.dumps(index).encode()})

    def write(self, files: Mapping[str, bytes]) -> None:
        self.file.write_bytes(tar(*(member(name, content) for name, content in files.items())))

    def refuses(self, *parts: str) -> None:
        """Check for a one-line error that names the file, and an unchanged store."""
        with pytest.raises(ArgosyError) as problem:
            self.take()
        message = str(problem.value)
        assert message.startswith(f"{self.file}: ")
        assert "\n" not in message
        assert len(message) < 3000
        for part in parts:
            assert part in message
        left = [path for path in self.folder.rglob("*") if not path.is_dir()]
        assert {path.parent.name for path in left} <= {"locks"}
        assert not any(self.store.path.glob("builds/*"))
        assert [path.name for path in self.outside.iterdir()] == ["secret"]
        status = (self.outside / "secret").stat()
        assert (status.st_nlink, status.st_size) == (1, 6)


def configuration(layers: tuple[bytes, ...]) -> dict[str, Any]:
    return {
        "architecture": architecture(),
        "os": "linux",
        "config": {"Env": ["PATH=/bin", "A=b=c"], "Cmd": ["sh"], "WorkingDir": "/srv"},
        "rootfs": {"type": "layers", "diff_ids": [sha256(layer) for layer in layers]},
        "history": [
            {"created_by": "ENV A=b=c", "empty_layer": True},
            *({"created_by": f"RUN {number}"} for number in range(len(layers))),
        ],
    }


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


LAYER = tar(folder("srv", mode=0o750), member("srv/file", b"content", mode=0o640))


# Accepted content.


def test_files_have_their_modes_times_and_links(tmp_path: Path) -> None:
    moment = {"pax_headers": {"mtime": "1500000000.123456789"}}
    content = tar(
        folder("./bin", mode=0o555, **moment),
        member("./bin/su", b"su", mode=0o4755, **moment),
        hardlink("./bin/other", "./bin/su"),
        symlink("./sh", "/bin/su"),
        symlink("./up", "../../.."),
        member("./pipe", type=tarfile.FIFOTYPE, mode=0o600),
        member("./dev/null", type=tarfile.CHRTYPE, devmajor=1, devminor=3),
    )
    diff = tmp_path / "diff"
    change = take(diff, content)
    status = (diff / "bin/su").stat()
    assert stat.S_IMODE(status.st_mode) == 0o4755
    assert status.st_mtime_ns == (diff / "bin").stat().st_mtime_ns == 1500000000123456789
    assert stat.S_IMODE((diff / "bin").stat().st_mode) == 0o555
    assert (diff / "bin/other").stat().st_ino == status.st_ino
    assert str((diff / "sh").readlink()) == "/bin/su"
    assert stat.S_ISFIFO((diff / "pipe").stat().st_mode)
    # Devices below /dev are skipped; only their folder is made.
    assert [*(diff / "dev").iterdir()] == []
    assert (change.entries, change.size) == (7, 4)
    (diff / "bin").chmod(0o755)


def test_removed_files_and_hidden_folders_are_noted(tmp_path: Path) -> None:
    content = tar(
        folder("a"),
        member("a/.wh..wh..opq"),
        member("b/.wh.gone"),
        member(".wh.again"),
        folder("again"),
        member("b/.wh.made"),
        member("b/made", b"x"),
        member(".wh..wh.plnk"),
        member("over", type=tarfile.CHRTYPE),
    )
    change = take(tmp_path / "diff", content)
    assert change.removed == ("b/gone", "over")
    assert change.opaque == ("a", "again")
    assert is_whiteout((tmp_path / "diff/b/gone").lstat())
    assert is_opaque(str(tmp_path / "diff/again"))


def test_a_layer_that_was_unpacked_has_its_digest_again(tmp_path: Path) -> None:
    first = tmp_path / "first"
    change = take(first, tar(folder("a"), member("a/x", b"1" * 700), member("a/.wh.y")))
    with layer_tar(first, change) as stream:
        content = stream.read()
    old = os.umask(0o077)
    try:
        again = take(tmp_path / "second", content)
        assert again == change
        assert digest_of_layer(tmp_path / "second", again) == sha256(content)
    finally:
        os.umask(old)


def test_a_later_member_takes_the_place_of_an_earlier_one(tmp_path: Path) -> None:
    content = tar(
        folder("a"), member("a/b", b"1"), symlink("a", "/etc"), member("a", b"2"), folder("a")
    )
    change = take(tmp_path / "diff", content)
    assert [*(tmp_path / "diff/a").iterdir()] == []
    assert change.entries == 1


def test_folders_that_the_tar_leaves_out_are_as_below(tmp_path: Path) -> None:
    lower = tmp_path / "lower"
    change = take(lower, tar(folder("srv", mode=0o1777), member("srv/file", b"x")))
    upper = tmp_path / "upper"
    content = tar(member("srv/more", b"y"), hardlink("srv/same", "srv/file"))
    take(upper, content, [Layer(lower, change)])
    assert stat.S_IMODE((upper / "srv").stat().st_mode) == 0o1777
    assert (upper / "srv/same").read_text() == "x"


def test_names_begin_at_the_root_of_the_image(tmp_path: Path) -> None:
    """kaniko writes targets of hard links with a slash, other tools also names; podman accepts both."""
    lower = tmp_path / "lower"
    change = take(lower, tar(folder("/"), member("/opt/a", b"1"), member("srv/x", b"x")))
    content = tar(
        folder("/etc/"),
        member("/../etc/up", b"up"),
        hardlink("opt/b", "/opt/a"),
        hardlink("/opt/c", "opt/sub/../b"),
        member("p/q/../r", b"r"),
        symlink("l", "/outside"),
        member("l/../s", b"s"),
        member("/srv/.wh.x"),
        hardlink("//opt/d", "/../opt//c"),
    )
    upper = tmp_path / "upper"
    change = take(upper, content, [Layer(lower, change)])
    files = {str(path.relative_to(upper)) for path in upper.rglob("*") if path.is_file()}
    assert files == {"etc/up", "opt/b", "opt/c", "opt/d", "p/r", "s"}
    assert change.removed == ("srv/x",)
    assert (
        len(
            {
                (folder / path).stat().st_ino
                for folder, path in (
                    (lower, "opt/a"),
                    (upper, "opt/b"),
                    (upper, "opt/c"),
                    (upper, "opt/d"),
                )
            }
        )
        == 1
    )


@pytest.mark.parametrize("kind", ["gnu", "0.0", "0.1", "1.0"])
def test_sparse_files_are_taken_with_their_holes(tmp_path: Path, kind: str) -> None:
    """Each format of GNU tar; the largest file has more pieces than fit into a header."""
    (tmp_path / "made").mkdir()
    for name, places in (("few", [5000]), ("many", range(20_000, 700_000, 16_384)), ("empty", [])):
        with (tmp_path / "made" / name).open("wb") as file:
            for place in places:
                file.seek(place)
                file.write(b"content")
            file.truncate(1_000_000)
    (tmp_path / "made/not sparse").write_bytes(b"after")
    form = ["--format=gnu"] if kind == "gnu" else ["--format=posix", f"--sparse-version={kind}"]
    command = ["tar", "--create", "--sparse", *form, f"--directory={tmp_path / 'made'}", "."]
    content = subprocess.run(command, capture_output=True, check=True).stdout
    assert len(content) < 1_000_000
    change = take(tmp_path / "diff", content)
    assert change.size == 3_000_005
    for path in (tmp_path / "made").iterdir():
        assert (tmp_path / "diff" / path.name).read_bytes() == path.read_bytes()


def test_the_notes_of_aufs_are_no_files_and_what_they_keep_is_linked(tmp_path: Path) -> None:
    content = tar(
        folder(".wh..wh.plnk"),
        member(".wh..wh.plnk/99.1", b"old", mode=0o755),
        member("/.wh..wh.plnk/99.1", b"kept", mode=0o750),
        hardlink(".wh..wh.plnk/99.2", "bin/a"),
        member(".wh..wh.aufs"),
        folder(".wh..wh.orph"),
        member(".wh..wh.orph/x", b"x"),
        hardlink("bin/a", ".wh..wh.plnk/99.1"),
        hardlink("bin/b", "/.wh..wh.plnk/99.1"),
    )
    change = take(tmp_path / "diff", content)
    assert [path.name for path in tmp_path.iterdir()] == ["diff"]
    assert (change.removed, change.opaque, change.entries) == ((), (), 3)
    status = (tmp_path / "diff/bin/a").stat()
    assert (tmp_path / "diff/bin/b").read_text() == "kept"
    assert (status.st_nlink, stat.S_IMODE(status.st_mode)) == (2, 0o750)


def test_a_layer_may_hide_all_that_is_below(project: Project) -> None:
    below = tar(member("a/x", b"1"), member("b", b"2"), symlink("c", "b"), member("d/e/f", b"3"))
    upper = tar(member("a/y", b"4"), member("/.wh..wh..opq"), member("b", b"5"))
    project.write_docker(tar(member(".wh..wh..opq")), below, upper, tar(folder("d")))
    lock = project.take()
    root = project.store.root(lock.digest)
    assert [path.name for path in (root / "a").iterdir()] == ["y"]
    assert (root / "b").read_text() == "5"
    assert not (root / "c").is_symlink()
    assert list((root / "d").iterdir()) == []


def test_a_folder_takes_the_place_of_a_link_of_a_layer_below(project: Project) -> None:
    below = tar(folder("run"), symlink("var/run", str(project.outside)), symlink("a/b", "/run"))
    upper = tar(member("var/run/pid", b"1"), member("a/b/c/d", b"2"), folder("a/b/e"))
    project.write_docker(below, upper)
    root = project.store.root(project.take().digest)
    assert (root / "var/run/pid").read_text() == "1"
    assert not (root / "var/run").is_symlink()
    assert sorted(path.name for path in (root / "a/b").iterdir()) == ["c", "e"]
    assert [path.name for path in project.outside.iterdir()] == ["secret"]


@pytest.mark.parametrize(
    "kind", ["docker", "oci", "absolute", "gzip", "platforms", "whole", "whole by xz"]
)
def test_an_image_is_taken_in_every_form(project: Project, kind: str) -> None:
    upper = tar(member("srv/.wh.file"), member("srv/new", b"new"))
    match kind:
        case "docker":
            project.write_docker(LAYER, upper)
        case "gzip":
            project.write_oci(LAYER, upper, pack=gzip.compress)
        case "platforms":
            project.write_oci(LAYER, upper, platforms=True)
        case _:
            project.write_oci(LAYER, upper)
    if kind == "absolute":
        with tarfile.open(project.file) as archive:
            files = {m.name: archive.extractfile(m).read() for m in archive}  # type: ignore[union-attr]
        project.write({f"/{name}": content for name, content in files.items()})
    if kind.startswith("whole"):
        pack = lzma.compress if kind == "whole by xz" else gzip.compress
        project.file.write_bytes(pack(project.file.read_bytes()))
    lock = project.take()
    root = project.store.root(lock.digest)
    assert [path.name for path in (root / "srv").iterdir()] == ["new"]
    assert (lock.config.environment, lock.config.workdir) == ({"PATH": "/bin", "A": "b=c"}, "/srv")
    assert [step.instruction for step in lock.steps] == ["RUN 0", "RUN 1"]
    assert lock.base.source == "file"
    assert ImageLock.read(project.folder / "resources/images/image/image.lock") == lock
    assert ImageLock.read(project.store.description(lock.digest)) == lock
    # Imported again by another name, it is the same image.
    assert project.take("other").digest == lock.digest


def several(pack: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    """Compress two halves separately, as parallel programs do."""
    return lambda content: pack(content[:700]) + pack(content[700:])


PACKERS = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "padded xz": lambda content: lzma.compress(content) + bytes(8),
    "zstd": zstandard.compress,
    "pzstd": lambda content: b"\x50\x2a\x4d\x18\x04\0\0\0size" + zstandard.compress(content),
    "several by gzip": several(gzip.compress),
    "several by bzip2": several(bz2.compress),
    "several by xz": several(lzma.compress),
    "several by zstd": several(zstandard.compress),
}


@pytest.mark.parametrize("kind", PACKERS)
def test_layers_are_taken_however_they_are_compressed(project: Project, kind: str) -> None:
    pack = PACKERS[kind]
    project.write_oci(LAYER, pack=lambda content: pack(content)[:-20])
    project.refuses("damaged or cut off")
    # Damage inside is detected too, even if it decompresses without an error.
    damaged = bytearray(pack(LAYER))
    damaged[len(damaged) // 2] ^= 0xFF
    project.write_oci(LAYER, pack=lambda content: bytes(damaged))
    project.refuses("damaged or cut off")
    project.write_oci(LAYER, pack=pack)
    assert (project.store.root(project.take().digest) / "srv/file").read_text() == "content"


def packed_in_a_stream(content: bytes, how: zstandard.ZstdCompressionParameters) -> bytes:
    compressor = zstandard.ZstdCompressor(compression_params=how).compressobj()
    return compressor.compress(content) + compressor.flush()


def test_decompression_takes_no_memory_that_a_header_asks_for(project: Project) -> None:
    greedy = [{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 30}]
    project.write_oci(LAYER, pack=lambda content: lzma.compress(content, filters=greedy))
    project.refuses(": Memory usage limit exceeded")
    roomy = zstandard.ZstdCompressionParameters(window_log=30)
    project.write_oci(LAYER, pack=lambda content: packed_in_a_stream(content, roomy))
    project.refuses("requires too much memory")
    # The message does not call it damaged.
    with pytest.raises(ArgosyError) as problem:
        project.take()
    assert "damaged" not in str(problem.value)


def test_a_layer_may_be_a_file_of_no_bytes(project: Project) -> None:
    """Some tools write such layers for steps without changes."""
    project.write_oci(
        b"", LAYER, b"", pack=lambda content: gzip.compress(content) if content else b""
    )
    first = project.take()
    assert (project.store.root(first.digest) / "srv/file").read_text() == "content"
    project.write_oci(b"", LAYER, b"", pack=gzip.compress)
    assert project.take("again").digest == first.digest


def test_an_image_of_several_is_named_behind_its_file(project: Project) -> None:
    project.write_docker(LAYER)
    source = f"{project.file}:an/image:1"
    lock = take_image(project.store, project.folder, source, "image", print)
    assert lock.base.reference == "an/image:1"
    with pytest.raises(ArgosyError, match=r"an image 'other' .* it contains: an/image:1"):
        take_image(project.store, project.folder, f"{project.file}:other", "image", print)
    with pytest.raises(ArgosyError, match=f"{project.file}x:other: No such file"):
        take_image(project.store, project.folder, f"{project.file}x:other", "image", print)


def test_an_image_that_is_built_elsewhere_may_be_carried_here(project: Project) -> None:
    (project.folder / "containers" / "image").mkdir(parents=True)
    project.write_docker(LAYER)
    project.take()
    with pytest.raises(ArgosyError, match=r"^'../x': a name may contain"):
        project.take("../x")


# Refused members.

HOSTILE = {
    "the way out by name": [member("../outside/evil", b"x")],
    "the way out from inside": [folder("a"), member("a/../../outside/evil", b"x")],
    "the way out by an inner name": [folder("a"), member("./a//.././../outside/evil", b"x")],
    "the way to the folder around": [folder("a/../..")],
    "below a link out, by an inner name": [symlink("a", ".."), member("b/../a/evil", b"x")],
    "an absolute name below a link out": [symlink("a", "../outside"), member("/a/evil", b"x")],
    "a removal below a link, absolute": [symlink("a", ".."), member("/a/.wh.outside")],
    "below a link out": [symlink("a", "../outside"), member("a/evil", b"x")],
    "below an absolute link": [symlink("a", "/tmp"), member("a/evil", b"x")],
    "below a link to a link": [symlink("b", ".."), symlink("a", "b"), member("a/b/evil", b"x")],
    "a folder below a link": [symlink("a", ".."), folder("a/evil")],
    "a removal below a link": [symlink("a", ".."), member("a/.wh.outside")],
    "a hiding below a link": [symlink("a", ".."), member("a/outside/.wh..wh..opq")],
    "a removal of what is around": [member("a/.wh..")],
    "a removal of the folder": [member("a/.wh.")],
    "a link by way of a link": [symlink("a", ".."), hardlink("b", "a/outside/secret")],
    "an absolute hard link": [hardlink("b", "/etc/passwd")],
    "a hard link out": [hardlink("b", "../outside/secret")],
    "a hard link out from inside": [folder("a"), hardlink("b", "a/../../outside/secret")],
    "a hard link to the root": [hardlink("b", "/")],
    "an absolute hard link by way of a link": [
        symlink("a", ".."),
        hardlink("b", "/a/outside/secret"),
    ],
    "a link to what AUFS did not keep": [hardlink("b", ".wh..wh.plnk/../../../outside/secret")],
    "a link to nothing that AUFS kept": [hardlink("b", ".wh..wh.plnk/1.2")],
    "a name of AUFS that is too long": [member(".wh..wh.plnk/" + "n" * 300, b"x")],
    "below a note of AUFS that is not its own": [member("a/.wh..wh.x/c", b"x")],
    "a hard link to nothing": [hardlink("b", "not-there")],
    "a hard link to a folder": [folder("a"), hardlink("b", "a")],
    "a hard link to itself": [member("a", b"x"), hardlink("a", "a")],
    "a block device": [member("disk", type=tarfile.BLKTYPE, devmajor=8)],
    "a device": [member("mem", type=tarfile.CHRTYPE, devmajor=1, devminor=1)],
    "a file in a file": [member("a", b"x"), member("a/b", b"x")],
    "below a removed name": [member("a/.wh.b/c", b"x")],
    "the root as a file": [member(".", b"x")],
    "a name that is too long": [member("n" * 300, b"x")],
    "no end of folders": [member("/".join("n" * 300), b"x")],
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_member_is_refused_and_named(project: Project, kind: str) -> None:
    members = HOSTILE[kind]
    project.write_docker(tar(member("before", b"x"), *members))
    project.refuses("0/layer.tar: ", repr(members[-1][0].name))


def test_links_of_a_layer_below_are_not_followed_either(project: Project) -> None:
    lower = tar(symlink("a", str(project.outside)))
    project.write_docker(lower, tar(hardlink("b", "a/secret")))
    project.refuses("1/layer.tar: 'b'", "which is missing in the image")


@pytest.fixture
def with_free_bytes(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Return a function that sets the free bytes of all file systems; their size becomes 250 TiB."""
    statvfs = os.statvfs

    def choose(free: int) -> None:
        def nearly_full(path: str | Path) -> os.statvfs_result:
            found = list(statvfs(path))
            unit = found[1]
            found[2:5] = (250 << 40) // unit, free // unit, free // unit
            return os.statvfs_result(found)

        monkeypatch.setattr(os, "statvfs", nearly_full)

    return choose


def test_what_would_fill_the_disk_is_refused(
    project: Project, with_free_bytes: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    with_free_bytes((1 << 30) + 1_000_000)
    # Two megabytes of zeros compress to two kilobytes.
    project.write_oci(tar(member("zeros", bytes(2_000_000))), pack=gzip.compress)
    project.refuses("'zeros': 1.91 MiB do not fit: ", "free")
    monkeypatch.setattr(disk, "MOST_FILES_LEFT", 1 << 62)
    project.write_oci(LAYER)
    project.refuses("the file system has no free inodes for more files")


def test_a_disk_that_is_nearly_full_still_takes_an_image(
    project: Project, with_free_bytes: Callable[[int], None]
) -> None:
    """The reserve has an upper limit, which a share of a large disk would exceed."""
    project.write_oci(LAYER)
    with_free_bytes((1 << 30) - 1)
    project.refuses(" do not fit: ", "and 1 GiB stay reserved")
    with_free_bytes((1 << 30) + (1 << 20))
    assert project.take().digest


def test_headers_that_would_fill_the_memory_are_refused(project: Project) -> None:
    begin = LAYER[: end_of(LAYER)]
    for kind, why in (
        (tarfile.XHDTYPE, "a header that is too long"),
        (tarfile.GNUTYPE_LONGNAME, "a header that is too long"),
        (tarfile.GNUTYPE_SPARSE, "unexpected end of data"),
    ):
        header = tarfile.TarInfo("x")
        header.type, header.size = kind, 1 << 32
        project.write_docker(header.tobuf(tarfile.GNU_FORMAT) + bytes(1024))
        project.refuses("0/layer.tar", why)
        project.write_docker(begin + header.tobuf(tarfile.GNU_FORMAT) + bytes(1024))
        project.refuses("0/layer.tar", why)


# Refused archives.


def test_a_layer_with_another_digest_is_refused(project: Project) -> None:
    other = tar(member("srv/file", b"contenT"))
    project.write_docker(LAYER, rootfs={"diff_ids": [sha256(other)]})
    project.refuses("0/layer.tar: damaged or cut off: the layer sha256:")


def test_a_cut_off_tar_within_a_layer_is_refused(project: Project) -> None:
    content = tar(member("a", b"x" * 5000))
    for cut in (content[:3000], content[:512], content[:100], b""):
        project.write_docker(cut, rootfs={"diff_ids": [sha256(content)]})
        project.refuses("0/layer.tar")


@pytest.mark.slow
def test_a_damaged_or_cut_off_archive_is_refused_wherever_it_is(project: Project) -> None:
    project.write_oci(
        LAYER, tar(member("big", random.Random(1).randbytes(5000))), pack=gzip.compress
    )
    whole = project.file.read_bytes()
    for end in range(0, end_of(whole), 512):
        project.file.write_bytes(whole[:end])
        project.refuses()
    for place in range(600, end_of(whole), 397):
        damaged = bytearray(whole)
        damaged[place] ^= 0xFF
        project.file.write_bytes(damaged)
        try:
            digest = project.take().digest
        except ArgosyError as problem:
            assert "\n" not in str(problem)
        else:
            # The bit was irrelevant: padding, or a time or mode of the outer tar.
            assert (project.store.root(digest) / "big").stat().st_size == 5000
            shutil.rmtree(project.store.layer(""))
    project.file.write_bytes(gzip.compress(whole)[:3000])
    project.store = Store(project.folder / "another")
    with pytest.raises(ArgosyError, match=r"image.tar: damaged or cut off"):
        project.take()


def test_a_blob_that_is_not_what_names_it_is_refused(project: Project) -> None:
    project.write_oci(LAYER)
    with tarfile.open(project.file) as archive:
        files = {m.name: archive.extractfile(m).read() for m in archive}  # type: ignore[union-attr]
    for name, content in files.items():
        if name.startswith("blobs"):
            changed = content.replace(b"content", b"contenT").replace(b"layers", b"Layers")
            project.write({**files, name: changed})
            project.refuses(name, "damaged")


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({"x": b""}, "neither an OCI archive nor one of docker save"),
        ({"index.json": b"no"}, "'index.json' is not JSON"),
        ({"index.json": b"[" * 100_000}, "'index.json' is not JSON"),
        ({"index.json": b"[]"}, "not an image description"),
        ({"index.json": b'{"manifests": []}'}, "it contains: none"),
        (
            {"index.json": b'{"manifests": [{"digest": "sha256:../../x"}]}'},
            "is not a SHA-256 digest",
        ),
        ({"index.json": b'{"manifests": [{"digest": 3}]}'}, "not an image description"),
        (
            {"index.json": json.dumps({"manifests": [{"digest": "x" * 70_000}]}).encode()},
            "is not a SHA-256 digest",
        ),
        (
            {"manifest.json": json.dumps([{"Config": "c" * 70_000, "Layers": []}]).encode()},
            "is missing",
        ),
        ({"manifest.json": b"[]"}, "it must contain one image for linux/"),
        ({"manifest.json": b'[{"Config": "c", "Layers": []}]'}, "'c' is missing"),
    ],
)
def test_what_describes_no_image_is_refused(
    project: Project, files: Mapping[str, bytes], why: str
) -> None:
    project.write(files)
    project.refuses(why)


def test_an_image_for_another_machine_is_refused(project: Project) -> None:
    project.write_docker(LAYER, architecture="s390x")
    project.refuses("made for linux/s390x, but this machine is linux/")
    project.write_docker(LAYER, config={"Env": "PATH"})
    project.refuses("not an image configuration")


def test_an_image_that_cannot_be_used_is_refused(project: Project) -> None:
    project.write_docker(LAYER, tar(member("etc", b"a file")))
    project.refuses("the image cannot be used: ", "etc: File exists")
    project.write_docker(tar(folder("etc/hosts")))
    project.refuses("the image cannot be used: ", "etc/hosts: Is a directory")
    project.write_docker()
    project.refuses("this image has no files")


def test_mount_points_stay_inside_whatever_an_image_holds(project: Project) -> None:
    project.write_docker(
        tar(symlink("etc", str(project.outside)), symlink("run", "../../../../outside"))
    )
    lock = project.take()
    assert [path.name for path in project.outside.iterdir()] == ["secret"]
    assert (project.store.root(lock.digest) / "outside/argosy").is_dir()


def test_what_is_no_archive_is_refused(project: Project) -> None:
    project.refuses("No such file")
    # Opening a pipe without a writer would block.
    os.mkfifo(project.file)
    project.refuses("not a regular file; save the archive as a file")
    project.file.unlink()
    project.file.symlink_to("/dev/null")
    project.refuses("not a regular file")
    project.file.unlink()
    project.file.write_text("not an archive")
    project.refuses("not an archive")
    for kind in ("gzip", "bzip2", "xz", "zstd"):
        project.file.write_bytes(PACKERS[kind](b"not an archive"))
        project.refuses("damaged or cut off, or not an archive")
    project.file.write_bytes(b"hsqs" + bytes(2000))
    project.refuses("a SquashFS image", "docker://REFERENCE NAME")
