"""Layers are merged into one tree as by overlayfs, and written as equivalent tars."""

import os
import socket
import stat
import tarfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pytest

from argosy_common.disk import remove_tree
from argosy_images.builder.workspace import CopyingWorkspace
from argosy_images.rootfs.archive import digest_of_layer, layer_tar
from argosy_images.rootfs.flatten import copy, flatten, lay_over, link
from argosy_images.rootfs.layers import Change, Layer, find_below


def layer(diff: Path, files: dict[str, str | None], change: Change | None = None) -> Layer:
    """Make a layer with these files; None is an empty folder."""
    diff.mkdir()
    for name, content in files.items():
        path = diff / name
        if content is None:
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
    return Layer(diff, change or Change())


def tree(root: Path) -> dict[str, str | None]:
    return {
        str(path.relative_to(root)): None if path.is_dir() else path.read_text()
        for path in sorted(root.rglob("*"))
    }


def test_what_a_layer_removed_is_gone_and_may_come_back(tmp_path: Path) -> None:
    low = layer(tmp_path / "low", {"a/x": "1", "b": "1", "c/deep/y": "1"})
    middle = layer(tmp_path / "middle", {"a": None}, Change(removed=("a/x", "b", "c")))
    high = layer(tmp_path / "high", {"b": "3"})
    flatten([low, middle], tmp_path / "two")
    assert tree(tmp_path / "two") == {"a": None}
    flatten([low, middle, high], tmp_path / "three")
    assert tree(tmp_path / "three") == {"a": None, "b": "3"}


@pytest.mark.parametrize("place", [link, copy])
def test_modes_times_and_links_are_kept(tmp_path: Path, place: Callable[[str, str], None]) -> None:
    only = layer(tmp_path / "only", {"bin/tool": "x"})
    (only.diff / "bin/tool").chmod(0o4755)
    (only.diff / "bin").chmod(0o2750)
    (only.diff / "way-out").symlink_to("/etc")
    os.utime(only.diff / "bin/tool", (1000, 1000))
    os.utime(only.diff / "bin", (2000, 2000))
    root = tmp_path / "root"
    root.mkdir()
    lay_over(only, root, place)
    assert stat.S_IMODE((root / "bin/tool").stat().st_mode) == 0o4755
    assert stat.S_IMODE((root / "bin").stat().st_mode) == 0o2750
    assert ((root / "bin/tool").stat().st_mtime, (root / "bin").stat().st_mtime) == (1000, 2000)
    assert (root / "way-out").readlink() == Path("/etc")
    shared = (root / "bin/tool").samefile(only.diff / "bin/tool")
    assert shared == (place is link)


def test_a_socket_that_a_step_leaves_is_no_file_of_the_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as an agent's of gpg, which layers cannot store."""
    low = layer(tmp_path / "low", {"run/file": "1"})
    workspace = CopyingWorkspace(tmp_path)
    for folder in (low.diff / "run", low.diff):
        monkeypatch.chdir(folder)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind("socket")
    with workspace.open([low]) as step:
        assert tree(step.root) == {"run": None, "run/file": "1"}
        monkeypatch.chdir(step.root)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind("socket")
        assert not step.save(tmp_path / "changes")
    flatten([low], tmp_path / "root", frozen=True)
    assert tree(tmp_path / "root") == {"run": None, "run/file": "1"}
    remove_tree(tmp_path / "root")


def test_what_can_be_seen_through_layers(tmp_path: Path) -> None:
    low = layer(tmp_path / "low", {"a/b/c": "1", "d/x": "1"})
    middle = layer(tmp_path / "middle", {"d": None}, Change(removed=("a",), opaque=("d",)))
    high = layer(tmp_path / "high", {"a/b": None})
    below = [high, middle, low]
    assert find_below(below, "a/b") == high.diff / "a/b"
    assert find_below(below[1:], "a/b") is None
    assert find_below(below[1:], "d/x") is None
    assert find_below([low], "d/x") == low.diff / "d/x"


def names(diff: Path, change: Change) -> list[str]:
    with layer_tar(diff, change) as stream:
        content = BytesIO(stream.read())
    with tarfile.open(fileobj=content) as archive:
        members = archive.getmembers()
    assert {(member.uid, member.gid) for member in members} <= {(0, 0)}
    return [member.name.removeprefix("./") for member in members]


def test_the_tar_says_what_was_removed(tmp_path: Path) -> None:
    change = Change(removed=("a/gone", "top"), opaque=("d",))
    only = layer(tmp_path / "only", {"a/new": "1", "d/y": "1", "grüße\nline": "1"}, change)
    found = names(only.diff, change)
    assert found == [
        "a",
        "a/new",
        "d",
        "d/y",
        "grüße\nline",
        "a/.wh.gone",
        ".wh.top",
        "d/.wh..wh..opq",
    ]


def test_the_same_layer_is_the_same_digest(tmp_path: Path) -> None:
    digests = set()
    for name in ("one", "two"):
        change = Change(removed=("gone",))
        only = layer(tmp_path / name, {"a/new": "1"}, change)
        for path in (only.diff / "a/new", only.diff / "a"):
            os.utime(path, (1000, 1000))
        digests.add(digest_of_layer(only.diff, change))
    assert len(digests) == 1
    (tmp_path / "two/a/new").write_text("2")
    assert digest_of_layer(tmp_path / "two", Change(removed=("gone",))) not in digests
