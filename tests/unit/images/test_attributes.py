"""Modes, groups and times of a frozen tree that a program has changed."""

import os
from pathlib import Path

import pytest
from trees import make_odd_tree

from argosy.images.rootfs import attributes

Attributes = dict[str, tuple[int, int, int]]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    make_odd_tree(tmp_path / "root")
    return tmp_path / "root"


def state(root: Path) -> Attributes:
    found = {}
    for path in (root, *root.rglob("*")):
        status = path.lstat()
        found[str(path)] = (status.st_mode, status.st_gid, status.st_mtime_ns)
    return found


def test_odd_files_are_put_back_too(root: Path) -> None:
    before = state(root)
    assert attributes.note(root)
    assert attributes.put_back(root) == attributes.Found([], [])
    others = [group for group in os.getgroups() if group != root.stat().st_gid]
    for path in [*root.rglob("*"), root]:
        os.utime(path, ns=(1, 2), follow_symlinks=False)
        if not path.is_symlink():
            path.chmod(0o700 if path.is_dir() else 0o640)
        if others:
            os.chown(path, -1, others[0], follow_symlinks=False)
    # A folder that nobody may enter hides what is in it.
    (root / "many").chmod(0)
    found = attributes.put_back(root)
    assert state(root) == before
    assert len(found.put_back) == len(before)
    assert not found.changed


def test_what_proot_does_for_the_time_of_a_call_is_no_programs_change(root: Path) -> None:
    before = state(root)
    folders = [root, *(path for path in root.rglob("*") if path.is_dir())]
    # The note may be taken while another node's proot has them open.
    for folder in folders:
        folder.chmod(folder.stat().st_mode | 0o700)
    attributes.note(root)
    assert attributes.put_back(root) == attributes.Found([], [])
    assert state(root) == before
    for folder in folders:
        folder.chmod(folder.stat().st_mode | 0o700)
    (root / "bin/nobody-may-read").chmod(0o711)
    (root / "big").chmod(0o755)
    assert attributes.put_back(root) == attributes.Found(["/big"], [])
    assert state(root) == before


def test_links_in_place_of_folders_lead_nowhere(root: Path, tmp_path: Path) -> None:
    attributes.note(root)
    outside = tmp_path / "outside"
    (outside / "3").mkdir(parents=True)
    (outside / "file").write_text("another's")
    before = state(outside)
    root.chmod(0o700)
    (root / "many").rename(root / "moved")
    (root / "many").symlink_to(outside)
    found = attributes.put_back(root)
    assert found.changed == ["/many"]
    assert state(outside) == before


def test_other_contents_and_files_that_are_gone(root: Path) -> None:
    attributes.note(root)
    root.chmod(0o700)
    (root / "zeros").unlink()
    (root / "big").chmod(0o600)
    (root / "big").write_bytes(b"short")
    found = attributes.put_back(root)
    assert found.changed == ["/big", "/zeros"]


def test_where_nothing_can_be_noted(root: Path, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        tmp_path.chmod(0o500)
        assert not attributes.note(root)
        tmp_path.chmod(0o700)
    attributes.note_path(root).write_bytes(b"")
    assert attributes.note(root)
    with pytest.raises(OSError, match="damaged"):
        attributes.put_back(root)
    assert attributes.note(root)
    assert attributes.put_back(root) == attributes.Found([], [])
