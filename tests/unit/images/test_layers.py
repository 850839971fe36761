"""Layers: what changed, and nothing else, comes back exactly."""

import contextlib
import os
import tarfile
from pathlib import Path

import pytest

from argosy.errors import ArgosyError
from argosy.images import layers


def populate(root: Path) -> None:
    (root / "usr/bin").mkdir(parents=True)
    (root / "usr/bin/tool").write_text("one")
    (root / "usr/bin/tool").chmod(0o755)
    (root / "etc").mkdir()
    (root / "etc/keep").write_text("keep")
    (root / "etc/go").write_text("go")
    (root / "old/deep").mkdir(parents=True)
    (root / "old/deep/file").touch()
    (root / "link").symlink_to("usr/bin/tool")


def tree(root: Path) -> dict[str, tuple[int, str]]:
    found = {}
    for path in sorted(root.rglob("*")):
        content = str(path.readlink()) if path.is_symlink() else ""
        content = path.read_text() if path.is_file() and not path.is_symlink() else content
        found[str(path.relative_to(root))] = (path.lstat().st_mode, content)
    return found


def test_unpacking_base_and_change_gives_the_changed_tree(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    empty = layers.snapshot(root)
    populate(root)
    first = layers.snapshot(root)
    layers.pack(root, layers.difference(empty, first), tmp_path / "base.tar")

    (root / "usr/bin/tool").write_text("two")
    (root / "etc/go").unlink()
    (root / "etc/übung\nline").write_text("new")
    (root / "link").unlink()
    (root / "link").mkdir()
    for path in ("old/deep/file",):
        (root / path).unlink()
    (root / "old/deep").rmdir()
    (root / "old").rmdir()
    change = layers.difference(first, layers.snapshot(root))
    layers.pack(root, change, tmp_path / "change.tar")

    again = tmp_path / "again"
    again.mkdir()
    layers.unpack(tmp_path / "base.tar", again)
    layers.unpack(tmp_path / "change.tar", again)
    assert tree(again) == tree(root)


def test_a_folder_that_becomes_a_link_takes_nothing_of_the_host_along(tmp_path: Path) -> None:
    host = tmp_path / "host"
    host.mkdir()
    (host / "file").write_text("precious")
    root = tmp_path / "root"
    (root / "data").mkdir(parents=True)
    (root / "data/file").touch()
    (root / "grüße\nline").touch()
    first = layers.snapshot(root)
    layers.pack(root, layers.difference({}, first), tmp_path / "base.tar")
    (root / "data/file").unlink()
    (root / "data").rmdir()
    (root / "data").symlink_to(host)
    (root / "grüße\nline").unlink()
    layers.pack(root, layers.difference(first, layers.snapshot(root)), tmp_path / "change.tar")

    again = tmp_path / "again"
    again.mkdir()
    layers.unpack(tmp_path / "base.tar", again)
    layers.unpack(tmp_path / "change.tar", again)
    assert (host / "file").read_text() == "precious"
    assert tree(again) == tree(root)


def test_a_removal_outside_of_the_image_is_refused(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "file").touch()
    root = tmp_path / "root"
    root.mkdir()
    (root / "link").symlink_to(victim)
    with tarfile.open(tmp_path / "evil.tar", "w") as archive:
        archive.addfile(tarfile.TarInfo("./link/.wh.file"))
    with pytest.raises(ArgosyError, match="outside of the image"):
        layers.unpack(tmp_path / "evil.tar", root)
    assert (victim / "file").exists()


def test_a_change_that_keeps_size_and_time_is_seen(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("aaa")
    os.utime(tmp_path / "file", (1, 1))
    before = layers.snapshot(tmp_path)
    (tmp_path / "file").write_text("bbb")
    os.utime(tmp_path / "file", (1, 1))
    assert layers.difference(before, layers.snapshot(tmp_path)).changed == ("file",)


def test_only_changes_are_packed_and_the_same_change_is_the_same_digest(tmp_path: Path) -> None:
    digests = []
    for name in ("a", "b"):
        root = tmp_path / name
        root.mkdir()
        populate(root)
        before = layers.snapshot(root)
        (root / "etc/new").write_text("x")
        os.utime(root / "etc/new", (1000, 1000))
        change = layers.difference(before, layers.snapshot(root))
        assert change == layers.Change(("etc/new",), ())
        digests.append(layers.pack(root, change, tmp_path / f"{name}.tar"))
    assert digests[0] == digests[1]


def test_what_the_runtime_makes_is_no_part_of_a_layer(tmp_path: Path) -> None:
    for name in ("run/argosy", "tmp/x", "dev/null", "proc/1"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "etc").mkdir()
    before = layers.snapshot(tmp_path)
    (tmp_path / "etc/resolv.conf").write_text("host's")
    (tmp_path / "tmp/more").touch()
    assert not layers.difference(before, layers.snapshot(tmp_path))


def test_owners_are_not_kept(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root/file").touch()
    change = layers.difference({}, layers.snapshot(tmp_path / "root"))
    layers.pack(tmp_path / "root", change, tmp_path / "layer.tar")
    with tarfile.open(tmp_path / "layer.tar") as archive:
        assert {(member.uid, member.gid) for member in archive} == {(0, 0)}


def test_a_layer_cannot_lead_out_of_the_image(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    with tarfile.open(tmp_path / "evil.tar", "w") as archive:
        link = tarfile.TarInfo("./way-out")
        link.type, link.linkname = tarfile.SYMTYPE, str(victim)
        archive.addfile(link)
        archive.addfile(tarfile.TarInfo("./way-out/written"))
        archive.addfile(tarfile.TarInfo(f"{victim}/absolute"))
    root = tmp_path / "root"
    root.mkdir()
    # tar refuses some of it and leaves the rest out; either way nothing may be written outside.
    with contextlib.suppress(ArgosyError):
        layers.unpack(tmp_path / "evil.tar", root)
    assert list(victim.iterdir()) == []
