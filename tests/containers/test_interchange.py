"""Exchange of images with podman, skopeo and udocker."""

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from frozen_images import make_layer
from podman import Podman, own_podman
from real_udocker import UDOCKER

from argosy_common.errors import ArgosyError
from argosy_images.builder import cache
from argosy_images.builder.builder import build_image
from argosy_images.gc.inventory import find_layers
from argosy_images.interchange.exporting import export_image
from argosy_images.interchange.importing import import_image, tag_folder
from argosy_images.rootfs.flatten import flatten
from argosy_images.rootfs.layers import Change
from argosy_images.store.lockfile import ImageLock
from argosy_images.store.store import Store

pytestmark = [
    pytest.mark.container,
    pytest.mark.skipif(
        not (shutil.which("podman") and shutil.which("skopeo")), reason="no podman or no skopeo"
    ),
]

CONTAINERFILE = """\
FROM scratch AS other
COPY data/file /made/elsewhere
FROM scratch
COPY --chmod=750 program /usr/bin/program
COPY data /srv/data/
ENV PATH=/usr/bin:/bin MODE="fast and loose"
WORKDIR /srv/work
COPY --from=other /made /srv/made
LABEL org.example.key="a value"
EXPOSE 8080
ENTRYPOINT ["/usr/bin/program"]
CMD ["--help"]
"""


class Place:
    """A project with an image, its archive, and podman."""

    def __init__(self, folder: Path, podman: Podman) -> None:
        self.folder = folder
        self.podman = podman
        self.store = Store(folder / "project" / ".argosy")
        self.archive = folder / "image.tar"
        self.lock = self.build()

    def build(self) -> ImageLock:
        image = self.folder / "project" / "containers" / "image"
        (image / "data").mkdir(parents=True)
        (image / "data" / "file").write_text("x" * 5000)
        (image / "data" / "empty").touch()
        (image / "data" / "link").symlink_to("/srv/data/file")
        (image / "program").write_text("#!/bin/sh\n")
        (image / "Containerfile").write_text(CONTAINERFILE)
        lock = build_image(self.store, image, self.folder / "image.lock", self.folder / "log")
        export_image(self.store, lock, self.archive)
        return lock


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with own_podman("vfs") as podman:
        yield Place(tmp_path_factory.mktemp("interchange"), podman)


def output(*command: str | Path, **variables: str) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **variables}, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def as_others_unpack(place: Place, lock: ImageLock, archive: Path) -> Path:
    """Return a tar of the file system that podman unpacks; check that podman shows our digest."""
    place.podman("load", "--quiet", "--input", archive)
    digests = place.podman("images", "--no-trunc", "--quiet").split()
    assert lock.digest in digests
    whole = place.folder / "whole.tar"
    storage = " ".join(place.podman.options)
    script = (
        f"m=$(podman {storage} image mount {lock.digest}) && tar -C $m -cf {whole} . "
        f"&& podman {storage} image unmount {lock.digest}"
    )
    inside = [] if os.geteuid() == 0 else ["podman", "unshare"]
    place.podman.run(*inside, "sh", "-c", script)
    return whole


def as_we_unpack(store: Store, lock: ImageLock, folder: Path) -> Path:
    """Return a tar of the image's flattened layers."""
    layers = [cache.read_layer(store, key) for key, _, _ in find_layers(store, lock)]
    flatten(layers, folder / "tree")
    with tarfile.open(folder / "ours.tar", "w") as archive:
        archive.add(folder / "tree", ".")
    return folder / "ours.tar"


def content(path: Path) -> dict[str, tuple[object, ...]]:
    """Return type, mode, time, target and digest of a tar's members, without the root."""
    found: dict[str, tuple[object, ...]] = {}
    with tarfile.open(path) as archive:
        for member in archive:
            source = archive.extractfile(member) if member.isreg() or member.islnk() else None
            digest = hashlib.sha256(source.read()).hexdigest() if source else ""
            kind = tarfile.REGTYPE if member.islnk() else member.type
            target = member.linkname if member.issym() else ""
            found[member.name] = (kind, member.mode, int(member.mtime), target, digest)
    found.pop(".")
    return found


def test_podman_has_the_same_files_by_the_same_digest(place: Place, tmp_path: Path) -> None:
    theirs = content(as_others_unpack(place, place.lock, place.archive))
    assert theirs == content(as_we_unpack(place.store, place.lock, tmp_path))
    assert "./srv/made/elsewhere" in theirs
    assert place.podman("images", "--format={{.Names}}").strip() == "[localhost/image:latest]"


def test_podman_agrees_on_what_is_removed_and_hidden(place: Place, tmp_path: Path) -> None:
    store = Store(tmp_path / "project" / ".argosy")
    make_layer(store, "lower", {"a/file": "1", "a/kept": "2", "b/x": "3", "b/y": "4", "c": "5"})
    make_layer(store, "upper", {"b/new": "6"}, Change(removed=("a/file", "c"), opaque=("b",)))
    steps = [cache.read_step(store, key) for key in ("lower", "upper")]
    diff_ids = [step.diff_id for step in steps if step and step.diff_id]
    lock = place.lock.model_copy(
        update={
            "digest": place.lock.config.digest(diff_ids),
            "steps": tuple(
                place.lock.steps[0].model_copy(update={"diff_id": diff_id}) for diff_id in diff_ids
            ),
        }
    )
    export_image(store, lock, tmp_path / "image.tar")
    theirs = content(as_others_unpack(place, lock, tmp_path / "image.tar"))
    assert {name for name in theirs if name.count("/") > 1} == {"./a/kept", "./b/new"}
    assert theirs == content(as_we_unpack(store, lock, tmp_path))
    # The imported archive has the same digest.
    other = Store(tmp_path / "other" / ".argosy")
    taken = import_image(other, tmp_path / "other", tmp_path / "image.tar", "image")
    assert taken.digest == lock.digest
    assert sorted(path.name for path in (other.root(taken.digest) / "b").iterdir()) == ["new"]


def test_skopeo_reads_what_the_image_says(place: Place) -> None:
    found = output("skopeo", "inspect", "--config", f"oci-archive:{place.archive}")
    for text in ("MODE=fast and loose", "/srv/work", "a value", "8080/tcp", "--help"):
        assert text in found


def to_docker(place: Place, target: Path) -> None:
    output("skopeo", "copy", f"oci-archive:{place.archive}", f"docker-archive:{target}:an/image:1")


def to_gzip(place: Place, target: Path) -> None:
    packed = ("--dest-compress", "--dest-compress-format=gzip")
    output("skopeo", "copy", *packed, f"oci-archive:{place.archive}", f"oci-archive:{target}")


def to_zstd(place: Place, target: Path) -> None:
    packed = ("--dest-compress", "--dest-compress-format=zstd")
    output("skopeo", "copy", *packed, f"oci-archive:{place.archive}", f"oci-archive:{target}")


def to_dir(place: Place, target: Path) -> None:
    output("skopeo", "copy", f"oci-archive:{place.archive}", f"dir:{target}")


def by_podman(place: Place, target: Path) -> None:
    place.podman("load", "--quiet", "--input", place.archive)
    place.podman("save", "--quiet", "--format=docker-archive", "--output", target, "image")


@pytest.mark.parametrize("convert", [to_docker, to_gzip, to_zstd, to_dir, by_podman])
def test_an_image_comes_back_with_its_digest(
    place: Place, tmp_path: Path, convert: Callable[[Place, Path], None]
) -> None:
    archive = tmp_path / "theirs.tar"
    convert(place, archive)
    store = Store(tmp_path / "project" / ".argosy")
    lock = import_image(store, tmp_path / "project", archive, "image")
    assert lock.digest == place.lock.digest
    assert lock.config == place.lock.config
    assert [step.diff_id for step in lock.steps] == [step.diff_id for step in place.lock.steps]
    export_image(store, lock, tmp_path / "again.tar")
    assert (tmp_path / "again.tar").read_bytes() == place.archive.read_bytes()


def test_udocker_loads_what_was_exported(
    place: Place, project_store: Store, tmp_path: Path
) -> None:
    own = Store(tmp_path / "store")
    shutil.copytree(project_store.udocker, own.udocker)
    if project_store.tools.is_dir():
        own.tools.symlink_to(project_store.tools)
    variables = {"UDOCKER_DIR": str(own.udocker)}
    output(*UDOCKER, "load", "-i", place.archive, **variables)
    output(*UDOCKER, "create", "--name=taken", "localhost/image:latest", **variables)
    root = own.udocker / "containers" / "taken" / "ROOT"
    found = {f"./{path.relative_to(root)}" for path in root.rglob("*")}
    assert found == set(content(as_we_unpack(place.store, place.lock, tmp_path)))


def test_what_udocker_has_is_imported(place: Place, project_store: Store, tmp_path: Path) -> None:
    shutil.copytree(project_store.udocker, tmp_path / "udocker")
    variables = {"UDOCKER_DIR": str(tmp_path / "udocker")}
    output(*UDOCKER, "load", "-i", place.archive, **variables)
    assert "localhost/image:latest" in output(*UDOCKER, "images", **variables)
    project = tmp_path / "project"
    store = Store(project / ".argosy")
    lock = import_image(store, project, tag_folder("udocker:localhost/image", variables), "taken")
    assert lock.digest == place.lock.digest
    assert lock.base.reference == "localhost/image:latest"
    with pytest.raises(
        ArgosyError, match=r"repos has no such image; it has localhost/image:latest"
    ):
        tag_folder("udocker:other:1", variables)
    with pytest.raises(ArgosyError, match="is written udocker:NAME"):
        tag_folder("udocker:../../etc", variables)
    # A link out of udocker's folder is refused.
    folder = tag_folder("udocker:localhost/image", variables)
    layer = next(folder.glob("*.layer"))
    layer.unlink()
    layer.symlink_to("/etc/passwd")
    with pytest.raises(ArgosyError, match="is missing"):
        import_image(Store(tmp_path / "other"), tmp_path / "other project", folder, "again")


def test_the_same_image_gives_the_same_file_and_a_failure_leaves_the_old_one(
    place: Place, tmp_path: Path
) -> None:
    target = tmp_path / "image.tar"
    export_image(place.store, place.lock, target)
    assert target.read_bytes() == place.archive.read_bytes()
    store = Store(tmp_path / ".argosy")
    shutil.copytree(place.store.layer(""), store.layer(""), symlinks=True)
    _, diff, _ = find_layers(store, place.lock)[0]
    (diff / "usr/bin/program").write_text("changed")
    with pytest.raises(ArgosyError, match=r"this layer has changed .*COPY --chmod=750"):
        export_image(store, place.lock, target)
    assert target.read_bytes() == place.archive.read_bytes()
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["image.tar"]


def test_the_commands_do_it_from_the_command_line(place: Place) -> None:
    project = place.folder / "project"

    def argosy(*arguments: str, status: int = 0) -> str:
        command = [sys.executable, "-m", "argosy.cli", "image", *arguments]
        done = subprocess.run(command, cwd=project, capture_output=True, text=True)
        assert done.returncode == status, done.stderr
        assert "Traceback" not in done.stderr
        return done.stdout + done.stderr

    argosy("build", "image")
    assert "all 5 steps of image are cached" in argosy("why", "image")
    (project / "containers/image/program").write_text("#!/bin/sh\nexit 1\n")
    assert "file program changed" in argosy("why", "image")
    assert place.lock.digest[7:19] in argosy("list")
    assert "freed 0 B; left: 1 image, 5 cached steps" in argosy("prune")
    assert place.lock.digest[:19] in argosy("export", "image", "again.tar")
    assert (project / "again.tar").read_bytes() == place.archive.read_bytes()
    assert "4 layers from localhost/image" in argosy("import", "again.tar", "again")
    for source in ("no/again.tar", "docker-archive:again.tar", "https://example.org/a.tar"):
        said = argosy("import", source, "x", status=2)
        assert said.startswith(f"error: {source}: No such file or directory\nhint: name a file")
    os.mkfifo(project / "pipe")
    for target in ("-", "pipe", "/dev/null"):
        said = argosy("export", "image", target, status=2)
        assert said.startswith(f"error: {target}: archives are written to files only")
    assert (project / "pipe").is_fifo()
    assert "there is no such image\nhint: there are again, image" in argosy(
        "export", "none", "x.tar", status=2
    )
    assert "write a size as" in argosy("prune", "--keep", "much", status=2)
