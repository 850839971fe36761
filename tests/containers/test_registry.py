"""FROM a real registry on loopback: Debian's docker-registry, filled by skopeo."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from image_programs import built
from registries import Layout, between, no_logins, push, registry, tar_of

from argosy_common.errors import ArgosyError
from argosy_images.builder.builder import build_image
from argosy_images.gc.prune import prune
from argosy_images.interchange.importing import import_from_registry, import_image
from argosy_images.registry.reference import Reference
from argosy_images.rootfs.archive import layer_tar
from argosy_images.rootfs.layers import read_overlay
from argosy_images.store.lockfile import ImageLock
from argosy_images.store.store import Store

pytestmark = pytest.mark.container

LOWER = tar_of(
    {
        "etc": None,
        "etc/passwd": b"root:x:0:0::/root:/bin/sh\n",
        "srv/gone": b"1",
        "srv/kept": b"2",
        "srv/folder/a": b"3",
        "srv/folder/b": b"4",
        "opaque/a": b"5",
        "opaque/sub/b": b"6",
        "dev/null": b"",
        "locked": None,
        "locked/secret": b"11",
    },
    # Some distributions have such shadow files.
    modes={"locked": 0o555, "locked/secret": 0},
)
UPPER = tar_of(
    {
        "srv/.wh.gone": b"",
        "srv/.wh.folder": b"",
        "srv/folder/c": b"7",
        "opaque": None,
        "opaque/.wh..wh..opq": b"",
        "opaque/new": b"8",
    }
)
TOP = tar_of({"srv/folder/a": b"9", "opaque/.wh.new": b"", "opaque/sub/again": b"10"})
SETTINGS = {"Env": ["PATH=/bin", "FROM_BASE=yes"]}
FILES = {
    "etc/passwd": "root:x:0:0::/root:/bin/sh\n",
    "srv/kept": "2",
    "srv/folder/c": "7",
    "srv/folder/a": "9",
    "opaque/sub/again": "10",
    "added": "by us",
}


@pytest.fixture(scope="module")
def address(project_store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve a registry with an image of three layers in several formats."""
    folder = tmp_path_factory.mktemp("registry")
    layout = Layout(folder / "index")
    own = layout.image(LOWER, UPPER, TOP, **SETTINGS)
    other = layout.image(tar_of({"wrong": b"x"}), machine="s390x")
    layout.finish(layout.index(other, own))
    single = Layout(folder / "single")
    single.finish(single.image(LOWER, UPPER, TOP, **SETTINGS))
    by_zstd = Layout(folder / "zstd")
    by_zstd.finish(by_zstd.image(LOWER, UPPER, TOP, packed="zstd", **SETTINGS))
    with registry(project_store, folder / "registry") as found:
        push(project_store, layout.folder, f"{found}/team/tool:index", "--all")
        push(project_store, single.folder, f"{found}/team/tool:oci")
        push(project_store, single.folder, f"{found}/team/tool:docker", "--format=v2s2")
        push(project_store, by_zstd.folder, f"{found}/team/tool:zstd")
        yield found


@pytest.fixture(autouse=True)
def nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGISTRY_AUTH_FILE", no_logins(tmp_path)["REGISTRY_AUTH_FILE"])


class Project:
    """A project with one image, whose base is in a registry."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "project"
        self.store = Store(self.folder / ".argosy")
        self.image = self.folder / "containers" / "image"
        self.image.mkdir(parents=True)
        (self.image / "file").write_text("by us")

    def build(self, reference: str) -> ImageLock:
        (self.image / "Containerfile").write_text(f"FROM {reference}\nCOPY file /added\n")
        lock = self.folder / "resources/images/image/image.lock"
        return build_image(self.store, self.image, lock, self.folder / "build.log")

    @property
    def log(self) -> str:
        return (self.folder / "build.log").read_text()


@pytest.fixture
def mine(tmp_path: Path) -> Project:
    return Project(tmp_path)


def files(root: Path) -> dict[str, str]:
    """Return the image's own files, without those that freezing adds."""
    own = ("srv", "opaque", "etc/passwd", "added", "wrong")
    found = [path for name in own for path in ((root / name), *(root / name).rglob("*"))]
    return {str(path.relative_to(root)): path.read_text() for path in found if path.is_file()}


@pytest.mark.thorough
@pytest.mark.parametrize("tag", ["index", "oci", "docker", "zstd"])
def test_layers_come_to_one_base_whatever_they_are_kept_as(
    mine: Project, address: str, tag: str
) -> None:
    lock = mine.build(f"{address}/team/tool:{tag}")
    root = mine.store.root(lock.digest)
    assert files(root) == FILES
    assert (root / "locked/secret").stat().st_mode & 0o7777 == 0
    assert (root / "locked/secret").stat().st_size == 2
    assert lock.config.environment["FROM_BASE"] == "yes"
    assert lock.base.source == "registry"
    pinned = Reference.parse(lock.base.reference)
    assert pinned.digest
    assert str(pinned) == f"{address}/team/tool:{tag}@{pinned.digest}"
    assert "pulling" in mine.log
    # The store has the layers, so the downloads are deleted.
    assert list(mine.store.blobs.iterdir()) == []
    assert list((mine.store.path / "builds").iterdir()) == []


def test_the_pinned_reference_gives_the_same_image(mine: Project, address: str) -> None:
    first = mine.build(f"{address}/team/tool:index")
    again = mine.build(first.base.reference)
    assert (again.digest, again.base) == (first.digest, first.base)


def test_a_tag_that_was_pulled_is_not_asked_for_again(mine: Project, address: str) -> None:
    with between(address, lambda request, number, ask: ask()) as front:
        first = mine.build(f"{front.address}/team/tool:oci")
        asked = len(front.requests)
        (mine.image / "file").write_text("changed")
        second = mine.build(f"{front.address}/team/tool:oci")
        assert len(front.requests) == asked
        # After pruning it is requested again.
        (mine.folder / "resources/images/image/image.lock").unlink()
        prune(mine.store, mine.folder, print)
        assert mine.build(f"{front.address}/team/tool:oci").digest == second.digest
        assert len(front.requests) == 2 * asked
    assert asked > 4
    assert second.base == first.base
    assert second.digest != first.digest


def test_an_image_of_a_registry_is_imported_by_the_command_line(
    mine: Project, address: str
) -> None:
    def argosy(*arguments: str, status: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "argosy.cli", "image", *arguments],
            cwd=mine.folder,
            capture_output=True,
            text=True,
        )
        assert done.returncode == status, done.stderr
        assert "Traceback" not in done.stderr
        return done.stdout + done.stderr

    said = argosy("import", f"docker://{address}/team/tool:index", "tool")
    assert f"3 layers from {address}/team/tool:index@sha256:" in said
    assert "3 layers, " in said
    lock = ImageLock.read(mine.folder / "resources/images/tool/image.lock")
    assert lock.base.source == "registry"
    assert Reference.parse(lock.base.reference).digest
    assert files(mine.store.root(lock.digest)) == {k: v for k, v in FILES.items() if k != "added"}
    assert list(mine.store.blobs.iterdir()) == []
    assert "@sha256" not in argosy("list")
    said = argosy("import", f"docker://{address}/team/none:1", "none", status=2)
    assert f"{address}/team/none:1: the registry does not have it: no such name or tag" in said
    said = argosy("import", "docker://a//b", "none", status=2)
    assert "names no image in a registry" in said


def test_an_image_layout_is_imported_as_a_folder_as_well(mine: Project, tmp_path: Path) -> None:
    layout = Layout(tmp_path / "layout")
    image = layout.image(LOWER, UPPER, TOP)
    layout.finish(image)
    lock = import_image(mine.store, mine.folder, layout.folder, "tool")
    assert files(mine.store.root(lock.digest)) == {k: v for k, v in FILES.items() if k != "added"}
    assert lock.base.source == "file"
    # A pipe would block, and a link may lead out of the folder.
    blob = layout.folder / "blobs" / image["digest"].replace(":", "/")
    content = blob.read_bytes()
    blob.unlink()
    outside = tmp_path / "outside"
    outside.write_bytes(content)
    blob.symlink_to(outside)
    with pytest.raises(ArgosyError, match=r"layout: 'blobs/sha256/\w+' is missing"):
        import_image(mine.store, mine.folder, layout.folder, "again")
    outside.unlink()
    blob.unlink()
    blob.write_bytes(content.replace(b"config", b"gifnoc"))
    with pytest.raises(ArgosyError, match=r"layout: 'blobs/sha256/\w+' is damaged"):
        import_image(mine.store, mine.folder, layout.folder, "again")


def test_a_hostile_image_is_refused_and_leaves_nothing(
    mine: Project, project_store: Store, address: str, tmp_path: Path
) -> None:
    layout = Layout(tmp_path / "hostile")
    layout.finish(layout.image(tar_of({"../../../evil": b"x"})))
    push(project_store, layout.folder, f"{address}/team/hostile:1")
    with pytest.raises(ArgosyError, match="leads out of the image"):
        mine.build(f"{address}/team/hostile:1")
    reference = Reference.parse(f"{address}/team/hostile:1")
    with pytest.raises(ArgosyError, match="leads out of the image"):
        import_from_registry(mine.store, mine.folder, reference, "hostile", print)
    assert not list(tmp_path.rglob("evil"))
    assert list((mine.store.path / "builds").iterdir()) == []


def test_two_builds_at_once_from_one_base_both_succeed(mine: Project, address: str) -> None:
    names = ("one", "two", "three")
    for name in names:
        folder = mine.folder / "containers" / name
        folder.mkdir()
        (folder / "Containerfile").write_text(f"FROM {address}/team/tool:oci\nLABEL name={name}\n")
    builds = [
        subprocess.Popen(
            [sys.executable, "-m", "argosy.cli", "image", "build", name],
            cwd=mine.folder,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in names
    ]
    for build in builds:
        _, said = build.communicate(timeout=120)
        assert build.returncode == 0, said
    locks = [
        ImageLock.read(mine.folder / "resources/images" / name / "image.lock") for name in names
    ]
    assert len({lock.base for lock in locks}) == 1
    assert list(mine.store.blobs.iterdir()) == []


def test_steps_run_on_a_base_of_a_registry(
    store: Store, project_store: Store, base_layer: tuple[str, Path], address: str, tmp_path: Path
) -> None:
    diff = base_layer[1] / "diff"
    with layer_tar(diff, read_overlay(diff)) as stream:
        content = stream.read()
    layout = Layout(tmp_path / "layout")
    layout.finish(
        layout.image(content, Env=["PATH=/usr/sbin:/usr/bin:/sbin:/bin", "SAID=yes it is"])
    )
    push(project_store, layout.folder, f"{address}/library/debian:test")
    folder = tmp_path / "image"
    lock = built(
        store,
        folder,
        f"FROM {address}/library/debian:test\nENV MORE=1\n"
        'RUN echo "$SAID" > /said && id joe || useradd joe\n',
    )
    assert lock.config.environment["SAID"] == "yes it is"
    assert lock.config.environment["MORE"] == "1"
    root = store.root(lock.digest)
    assert (root / "said").read_text() == "yes it is\n"
    assert (root / "etc/debian_version").exists()
    assert json.loads((folder / "image.lock").read_text())["base"]["source"] == "registry"


MIRRORS = """
[[registry]]
location = "docker.io/library"
[[registry.mirror]]
location = "127.0.0.1:9/nobody"
[[registry.mirror]]
location = "{address}/empty"
[[registry.mirror]]
location = "{address}/team"
"""


def test_a_mirror_that_has_the_image_gives_it_under_its_own_name(
    mine: Project, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "registries.conf").write_text(MIRRORS.format(address=address))
    monkeypatch.setenv("CONTAINERS_REGISTRIES_CONF", str(tmp_path / "registries.conf"))
    lock = mine.build("tool:index")
    assert files(mine.store.root(lock.digest)) == FILES
    digest = Reference.parse(lock.base.reference).digest
    assert lock.base.reference == f"docker.io/library/tool:index@{digest}"
    said = mine.log
    assert "mirror 127.0.0.1:9: " in said
    assert f"mirror {address}: " in said
    assert f"taking docker.io/library/tool:index from the mirror {address}" in said
    taken = import_from_registry(
        mine.store, mine.folder, Reference.parse(f"tool:index@{digest}"), "taken", print
    )
    assert taken.base.reference == f"docker.io/library/tool:index@{digest}"
