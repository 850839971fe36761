"""Sharing a store, and setuid programs in layers."""

import os
import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from argosy_common.disk import remove_tree
from argosy_common.errors import ArgosyError
from argosy_images.builder import cache
from argosy_images.rootfs.archive import digest_of_layer, layer_tar
from argosy_images.rootfs.freeze import GrowingTree, make_frozen
from argosy_images.rootfs.layers import Change, Layer
from argosy_images.store.sharing import share
from argosy_images.store.store import Store


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0o002)
    yield
    os.umask(before)


@pytest.mark.usefixtures("open_umask")
def test_a_shared_store_opens_images_and_tools_and_nothing_else(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    for name in (
        "layers/k/diff",
        "cache/pip",
        "locks",
        "builds",
        "roots/sha256-a/etc",
        "tools/bin",
    ):
        (store.path / name).mkdir(parents=True)
    key, secret = store.path / "roots/sha256-a/etc/key", store.path / "layers/k/diff/key"
    (store.path / "layers/k/layer.json").write_text("{}")
    description, tool = store.path / "roots/sha256-a.json", store.path / "tools/bin/runc"
    for path, mode in ((key, 0o600), (secret, 0o600), (description, 0o600), (tool, 0o770)):
        path.write_text("x")
        path.chmod(mode)
    (store.path / "tools/link").symlink_to(key)
    said: list[str] = []
    share(store, said.append)
    modes = [mode_of(path) for path in (key, secret, description, tool)]
    assert modes == [0o600, 0o600, 0o644, 0o755]
    opened = {path.name for path in store.path.iterdir() if mode_of(path) & 0o055}
    assert opened == {"roots", "tools", "layers"}
    assert mode_of(secret.parent) == 0o700
    assert mode_of(secret.parents[1] / "layer.json") == 0o644
    assert mode_of(store.path) == 0o755
    assert mode_of(store.path / "roots/sha256-a/etc") == 0o775, "the image's own"
    assert said == [
        f"{store.path}: users who can reach this folder can run its images; share again after each build"
    ]


def test_what_is_no_store_of_this_user_is_not_shared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ArgosyError, match="no store yet"):
        share(Store(tmp_path / "none"), print)
    me = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    with pytest.raises(ArgosyError, match="you do not own this store"):
        share(Store(tmp_path), print)


def test_layers_note_setuid_programs_and_hold_none(tmp_path: Path) -> None:
    def files(diff: Path) -> Change:
        (diff / "bin").mkdir(parents=True)
        (diff / "bin").chmod(0o755)
        for name, mode in (("su", 0o4755), ("mail", 0o2711), ("ls", 0o755), ("b\udcff", 0o4755)):
            (diff / "bin" / name).write_text(name.encode("utf-8", "replace").decode())
            (diff / "bin" / name).chmod(mode)
        os.link(diff / "bin/su", diff / "bin/sudo")
        for path in (*(diff / "bin").iterdir(), diff / "bin"):
            os.utime(path, (1, 1))
        return Change(entries=6)

    store = Store(tmp_path / "store")
    step = cache.write_layer(store, "k", "RUN", {}, files)
    # Images of earlier versions keep their digests.
    with_modes_on_the_disk = files(tmp_path / "diff")
    assert step.diff_id == digest_of_layer(tmp_path / "diff", with_modes_on_the_disk)
    programs = dict.fromkeys(("bin/b\udcff", "bin/su", "bin/sudo"), 0o4755)
    assert step.setuid == {**programs, "bin/mail": 0o2711}
    diff = store.layer("k") / "diff"
    assert not [path for path in diff.rglob("*") if path.stat().st_mode & 0o6000]
    assert mode_of(diff) == 0o700
    again = cache.read_step(store, "k")
    assert again == step

    with layer_tar(diff, step.change) as stream, tarfile.open(fileobj=stream, mode="r|") as tar:
        found = {member.name: (member.mode, member.mtime, member.linkname) for member in tar}
    assert found["./bin/su"] == (0o4755, 1, "")
    assert found["./bin/sudo"] == (0o4755, 1, "./bin/su")
    assert found["./bin/mail"][0] == 0o2711
    assert found["./bin/ls"][0] == 0o755


def test_others_change_no_file_of_a_frozen_image(tmp_path: Path) -> None:
    """Others may enter the folders of a frozen tree, whose files are hard links to the layers' files."""
    diff = tmp_path / "diff"
    (diff / "opt").mkdir(parents=True)
    modes = {"all": 0o777, "group": 0o664, "pipe": 0o666, "own": 0o755, "su": 0o6777}
    for name, mode in modes.items():
        path = diff / "opt" / name
        os.mkfifo(path) if name == "pipe" else path.write_text(name)
        path.chmod(mode)
    (diff / "opt/link").symlink_to("all")
    layer = Layer(diff)
    make_frozen([layer], tmp_path / "root")
    tree = GrowingTree(tmp_path / "making")
    tree.begin([Layer(tmp_path / "root")])
    tree.finish([Layer(tmp_path / "root"), layer], tmp_path / "grown")
    for root in (tmp_path / "root/opt", tmp_path / "grown/opt"):
        found = {name: mode_of(root / name) for name in modes}
        assert found == {"all": 0o755, "group": 0o644, "pipe": 0o644, "own": 0o755, "su": 0o755}
        assert (root / "all").read_text() == "all"
        assert (root / "own").samefile(diff / "opt/own")
        assert (root / "link").readlink() == Path("all")
    assert {name: mode_of(diff / "opt" / name) for name in modes} == modes
    for root in (tmp_path / "root", tmp_path / "grown"):
        remove_tree(root)
