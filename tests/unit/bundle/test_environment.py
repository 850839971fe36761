"""What a machine without internet gets of this one's container tools."""

import tarfile
from pathlib import Path

import pytest

from argosy.bundle import bundling
from argosy_images.store.store import Store
from argosy_images.tools import Tools


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(tmp_path / "store")
    for name in ("lib/VERSION", f"bin/runc-{Tools.machine()}"):
        (store.udocker / name).parent.mkdir(parents=True, exist_ok=True)
        (store.udocker / name).write_text("1.2.11")
    return store


def names(store: Store, folder: Path) -> list[str]:
    with tarfile.open(bundling._tools(store, folder / "tools.tar.gz")) as archive:
        return [member.name for member in archive.getmembers() if member.isfile()]


def test_proot_of_the_distribution_goes_along(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "programs"
    folder.mkdir()
    (folder / "proot").write_text("#!/bin/sh\n")
    (folder / "proot").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    assert f"udocker_dir/bin/proot-{Tools.machine()}" in names(store, tmp_path)
    # Where it is unpacked, it is found.
    other = Store(tmp_path / "other")
    with tarfile.open(tmp_path / "tools.tar.gz") as archive:
        archive.extractall(other.udocker.parent)
    (other.path / "udocker_dir").rename(other.udocker)
    monkeypatch.setenv("PATH", "/nowhere")
    assert Tools(other).find_proot() == other.udocker / "bin" / f"proot-{Tools.machine()}"


def test_that_of_udockers_own_tools_is_there_once(store: Store, tmp_path: Path) -> None:
    own = store.udocker / "bin" / f"proot-{Tools.machine()}-4_8_0"
    own.write_text("#!/bin/sh\n")
    own.chmod(0o755)
    found = [name for name in names(store, tmp_path) if "proot" in name]
    assert found == [f"udocker_dir/bin/{own.name}"]
