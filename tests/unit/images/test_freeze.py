"""Paths in an image are followed inside the image, and a frozen tree cannot be written to."""

import stat
from pathlib import Path

import pytest

from argosy.errors import ArgosyError
from argosy.images.freeze import inside, make_frozen
from argosy.images.layers import Layer, read_overlay
from argosy.images.store import remove_tree


def test_absolute_links_stay_in_the_image(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "run").mkdir(parents=True)
    (root / "var").mkdir()
    (root / "var/run").symlink_to("/run")
    (root / "evil").symlink_to("../../../etc")
    assert inside(root, "/var/run/x") == root / "run/x"
    assert inside(root, "/evil/passwd") == root / "etc/passwd"
    assert inside(root, "a/../../b") == root / "b"


def test_a_circle_of_links_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(ArgosyError, match="in a circle"):
        inside(tmp_path, "/a/x")


def test_a_frozen_tree_has_its_mount_points_and_no_folder_that_could_be_changed(
    tmp_path: Path,
) -> None:
    layer, root = tmp_path / "layer", tmp_path / "root"
    (layer / "bin").mkdir(parents=True)
    (layer / "bin/tool").touch(0o755)
    (layer / "link").symlink_to("bin/tool")
    # Folders that are already there keep their modes, but for what they could be changed by.
    (layer / "tmp").mkdir()
    (layer / "tmp").chmod(0o1777)
    (layer / "etc").mkdir(0o700)
    (layer / "etc/hosts").write_text("of the image")
    make_frozen([Layer.of(layer, read_overlay(layer))], root)
    assert (root / "etc/hosts").readlink() == Path("/run/argosy/etc/hosts")
    assert stat.S_IMODE((root / "tmp").stat().st_mode) == 0o1555
    assert stat.S_IMODE((root / "etc").stat().st_mode) == 0o500
    assert (layer / "etc/hosts").read_text() == "of the image"
    for path in [root, *root.rglob("*")]:
        if path.is_dir():
            assert not stat.S_IMODE(path.stat().st_mode) & 0o222, path
    # A file is a layer's, too, and keeps its mode.
    assert stat.S_IMODE((root / "bin/tool").stat().st_mode) == 0o755
    for target in ("run/argosy", "argosy", "workloads", "job", "tmp"):
        assert (root / target).is_dir()
    remove_tree(root)
    assert not root.exists()
