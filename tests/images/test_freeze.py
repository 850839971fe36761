"""Paths in an image are followed inside the image, and a frozen tree cannot be written to."""

import os
import stat
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy_common.disk import remove_tree
from argosy_images.rootfs.flatten import flatten
from argosy_images.rootfs.freeze import GrowingTree, make_frozen
from argosy_images.rootfs.layers import Change, Layer, find_below, read_overlay
from argosy_images.rootfs.rooted import inside


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
    with pytest.raises(OSError, match="form a loop"):
        inside(tmp_path, "/a/x")


def test_a_frozen_tree_has_its_mount_points_and_no_folder_that_could_be_changed(
    tmp_path: Path,
) -> None:
    layer, root = tmp_path / "layer", tmp_path / "root"
    (layer / "bin").mkdir(parents=True)
    (layer / "bin/tool").touch(0o755)
    (layer / "link").symlink_to("bin/tool")
    # Existing folders keep their modes, except write permission.
    (layer / "tmp").mkdir()
    (layer / "tmp").chmod(0o1777)
    (layer / "etc").mkdir(0o700)
    (layer / "etc/hosts").write_text("of the image")
    make_frozen([Layer(layer, read_overlay(layer))], root)
    assert (root / "etc/hosts").readlink() == Path("/run/argosy/etc/hosts")
    assert stat.S_IMODE((root / "tmp").stat().st_mode) == 0o1555
    assert stat.S_IMODE((root / "etc").stat().st_mode) == 0o500
    assert (layer / "etc/hosts").read_text() == "of the image"
    for path in [root, *root.rglob("*")]:
        if path.is_dir():
            assert not stat.S_IMODE(path.stat().st_mode) & 0o222, path
    # Files are hard links to the layer's, and keep their modes.
    assert stat.S_IMODE((root / "bin/tool").stat().st_mode) == 0o755
    for target in ("run/argosy", "argosy", "workloads", "job", "tmp"):
        assert (root / target).is_dir()
    # Engines require an account of root.
    assert (root / "etc/passwd").read_text() == "root:x:0:0:root:/root:/bin/sh\n"
    assert stat.S_IMODE((root / "etc/passwd").stat().st_mode) == 0o444
    remove_tree(root)
    assert not root.exists()


def frozen(tmp_path: Path, workdir: str, *volumes: str) -> Path:
    layer = tmp_path / "layer"
    (layer / "usr").mkdir(parents=True)
    (layer / "usr/file").touch()
    (layer / "link").symlink_to("/made/by/link")
    (layer / "up").symlink_to("../../../../usr")
    (layer / "system").symlink_to("/proc/self/fd")
    make_frozen([Layer(layer, read_overlay(layer))], tmp_path / "root", workdir, volumes)
    return tmp_path / "root"


@pytest.mark.parametrize(
    ("workdir", "place"),
    [
        ("/srv/app", "srv/app"),
        ("/usr/new", "usr/new"),
        ("/link/below", "made/by/link/below"),
        ("/up/new", "usr/new"),
        ("/../new", "new"),
        ("/dev/shm", "dev/shm"),
    ],
)
def test_a_frozen_tree_has_its_working_directory_and_volumes(
    tmp_path: Path, workdir: str, place: str
) -> None:
    in_the_way = (
        "/usr/file",
        "/usr/file/below",
        "/etc/passwd",
        "/etc/hosts",
        "/a\0b",
        "/" + "d/" * 999,
    )
    root = frozen(tmp_path, workdir, "/a/volume", *in_the_way)
    for path in (place, "a/volume"):
        assert stat.S_IMODE((root / path).lstat().st_mode) == 0o555
    assert (root / "usr/file").is_file()
    remove_tree(root)


@pytest.mark.parametrize(
    "workdir",
    ["/usr/file", "/usr/file/below", "/proc/self/fd/3", "/system/3", "/sys/new", "/dev/x"],
)
def test_a_working_directory_that_cannot_be_made_is_refused(tmp_path: Path, workdir: str) -> None:
    with pytest.raises(OSError, match="WORKDIR"):
        frozen(tmp_path, workdir)
    remove_tree(tmp_path / "root")


def test_a_pipe_in_place_of_the_accounts_is_refused(tmp_path: Path) -> None:
    (tmp_path / "layer/etc").mkdir(parents=True)
    os.mkfifo(tmp_path / "layer/etc/group")
    layer = Layer(tmp_path / "layer", read_overlay(tmp_path / "layer"))
    with pytest.raises(OSError, match="not a regular file"):
        make_frozen([layer], tmp_path / "root")
    remove_tree(tmp_path / "root")


NAMES = st.sampled_from(["a", "b", "c"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)


@st.composite
def stacks(draw: st.DrawFn) -> list[tuple[list[str], list[str], list[str]]]:
    """Generate layers from the lowest: paths of files, of removed files, and of opaque folders."""
    paths = st.lists(PATHS, max_size=6, unique=True)
    return draw(st.lists(st.tuples(paths, paths, paths), min_size=2, max_size=4))


def make_layer(diff: Path, paths: list[str], removed: list[str], opaque: list[str]) -> Layer:
    diff.mkdir()
    for number, path in enumerate(paths):
        with suppress(FileExistsError, NotADirectoryError, IsADirectoryError):
            (diff / path).parent.mkdir(parents=True, exist_ok=True)
            (diff / path).write_text(f"{diff.name} {path}")
            (diff / path).parent.chmod(0o700 + number)
    folders = [path for path in opaque if (diff / path).is_dir()]
    gone = [path for path in removed if not os.path.lexists(diff / path)]
    for path in [*gone]:
        # The folder of a removed file is in the layer, too.
        try:
            (diff / path).parent.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            gone.remove(path)
    return Layer(diff, Change(tuple(gone), tuple(folders)))


def describe(path: Path) -> tuple[int, int, str | None]:
    """Return a file's mode, without write permission, its mtime and content."""
    status = path.lstat()
    content = path.read_text() if path.is_file() else None
    return stat.S_IMODE(status.st_mode) & ~0o222, status.st_mtime_ns, content


def described(root: Path) -> dict[str, tuple[int, int, str | None]]:
    return {str(path.relative_to(root)): describe(path) for path in root.rglob("*")}


@settings(max_examples=150, deadline=None)
@given(stack=stacks())
def test_a_frozen_tree_shows_what_its_layers_show(
    stack: list[tuple[list[str], list[str], list[str]]],
) -> None:
    with TemporaryDirectory() as folder:
        root = Path(folder) / "root"
        layers = [make_layer(Path(folder) / f"layer{n}", *each) for n, each in enumerate(stack)]
        flatten(layers, root, frozen=True)
        paths = {path for layer in layers for path in described(layer.diff)}
        below = [*reversed(layers)]
        shown = {path: found for path in paths if (found := find_below(below, path))}
        assert described(root) == {path: describe(found) for path, found in shown.items()}
        remove_tree(root)


def test_a_tree_begun_with_other_layers_is_made_anew(tmp_path: Path) -> None:
    layers = [make_layer(tmp_path / name, [name], [], []) for name in ("one", "two", "three")]
    tree = GrowingTree(tmp_path / "making")
    tree.begin(layers[:2])
    tree.finish([layers[0], layers[2]], tmp_path / "roots/new")
    names = {path.name for path in (tmp_path / "roots/new").iterdir()}
    assert "two" not in names
    assert {"one", "three"} <= names
    remove_tree(tmp_path / "roots/new")
