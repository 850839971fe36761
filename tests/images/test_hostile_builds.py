"""Images with links to the host: builds read and write only in the image."""

import os
import stat
import subprocess
import tarfile
from contextlib import suppress
from hashlib import sha256
from io import BytesIO
from pathlib import Path

import pytest
from canaries import holds_secret, make_canaries, state
from registries import Answer, serving

from argosy_common import disk
from argosy_common.disk import remove_tree
from argosy_common.errors import ArgosyError
from argosy_images.builder import execution
from argosy_images.builder.builder import build_image
from argosy_images.builder.fetching import empty_dev
from argosy_images.builder.workspace import OverlayWorkspace
from argosy_images.interchange.exporting import export_image
from argosy_images.interchange.importing import import_image
from argosy_images.store.lockfile import ImageLock
from argosy_images.store.store import Store


@pytest.fixture(autouse=True)
def with_tools(tmp_path: Path, project_store: Store) -> None:
    """Share the container tools between the tests."""
    (tmp_path / "store").mkdir(mode=0o700)
    if project_store.tools.is_dir():
        (tmp_path / "store/tools").symlink_to(project_store.tools)


@pytest.fixture
def host(tmp_path: Path) -> Path:
    return make_canaries(tmp_path / "host")


@pytest.fixture(params=["overlay", "copies"])
def workspace(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both kinds of workspace."""
    if request.param == "copies":
        monkeypatch.setattr(OverlayWorkspace, "works", staticmethod(lambda folder: False))


@pytest.fixture
def folder(tmp_path: Path, host: Path) -> Path:
    """An image's folder: `evil` has links to the host, `good` the files copied over them."""
    folder = tmp_path / "image"
    (folder / "evil/sub").mkdir(parents=True)
    (folder / "good/sub").mkdir(parents=True)
    for name in ("f", "file", "secret", "sub/f", "sub/new", ".bashrc"):
        (folder / "good" / name).write_text(f"of the image: {name}")
    (folder / "evil/app").symlink_to(host)
    (folder / "evil/up").symlink_to(Path("../../../../../../../../..") / str(host)[1:])
    (folder / "evil/sub/secret").symlink_to(host / "secret")
    (folder / "evil/sub/sub").symlink_to(host / "folder")
    (folder / "evil/file").symlink_to(host / "file")
    (folder / "evil/chain").symlink_to("/app/folder")
    with tarfile.open(folder / "into.tar", "w") as archive:
        for name in ("sub/f", "f", "chain/f", "app/f"):
            archive.addfile(*member(name))
    return folder


def member(name: str, **fields: object) -> tuple[tarfile.TarInfo, BytesIO | None]:
    made = tarfile.TarInfo(name)
    for field, value in fields.items():
        setattr(made, field, value)
    if made.type != tarfile.REGTYPE:
        return made, None
    made.size = 4
    return made, BytesIO(b"text")


def build(tmp_path: Path, folder: Path, text: str) -> Path:
    (folder / "Containerfile").write_text(text)
    store = Store(tmp_path / "store")
    lock = build_image(store, folder, tmp_path / "image.lock", tmp_path / "build.log")
    return store.root(lock.digest)


EVIL = "FROM scratch AS a\nCOPY evil/ /\nCOPY good/ /s/\nFROM scratch\nCOPY evil/ /\n"
WRITES = {
    "a folder into a link": "COPY good/ /app/",
    "a folder into a link without a slash": "COPY good/ /app",
    "a folder into a link with dots": "COPY good/ /up/",
    "a file into a link": "COPY good/f /app/",
    "a file below a link": "COPY good/f /app/new/er/",
    "a file to a link of a file": "COPY good/f /file",
    "a file over a link": "COPY good/file /",
    "a file with another mode to a link": "COPY --chmod=777 good/f /file",
    "a folder with another mode into a link": "COPY --chmod=777 good/ /app/",
    "folders over links": "COPY good/ /sub/",
    "a stage over links": "COPY --from=a /s/ /sub/",
    "a stage's pattern into a link": "COPY --from=a /s/* /app/",
    "a chain of links": "COPY good/ /chain/",
    "out of the root by dots": "COPY good/ /sub/../../../app/",
    "a here-document into a link": "COPY <<f /app/\ntext\nf\n",
    "a here-document over a link": "COPY <<file /\ntext\nfile\n",
    "an archive into a link": "ADD into.tar /app/",
    "an archive over links": "ADD into.tar /",
    "a working directory in a link": "WORKDIR /app/new",
    "a working directory by a chain": "WORKDIR /chain/new/er",
}


@pytest.mark.usefixtures("workspace")
@pytest.mark.parametrize("instruction", WRITES.values(), ids=WRITES)
def test_what_is_written_stays_in_the_image(
    instruction: str, tmp_path: Path, host: Path, folder: Path
) -> None:
    before = state(host)
    root = build(tmp_path, folder, f"{EVIL}{instruction}\n")
    assert state(host) == before
    assert not holds_secret(root)


def test_a_link_of_the_image_leads_to_where_it_leads_in_the_image(
    tmp_path: Path, host: Path, folder: Path
) -> None:
    root = build(tmp_path, folder, f"{EVIL}COPY good/ /app/\nCOPY good/f /sub/sub/deeper/\n")
    inside = root / str(host)[1:]
    assert (inside / "sub/new").read_text() == "of the image: sub/new"
    assert (inside / "folder/deeper/f").read_text() == "of the image: f"
    assert (root / "app").readlink() == host


READS = {
    "a linked file": "COPY --from=a /sub/secret /loot/",
    "links by a pattern": "COPY --from=a /sub/s* /loot/",
    "a linked folder": "COPY --from=a /app/ /loot/",
    "a file of a linked folder": "COPY --from=a /up/secret /loot/",
    "a pattern of a linked folder": "COPY --from=a /app/f* /loot/",
    "folders of a pattern": "COPY --from=a /*/secret /loot/",
    "a folder of links": "COPY --from=a /sub/ /loot/",
    "dots": "COPY --from=a /sub/../../../../../../../..{host}/secret /loot/",
    "a link of the context": "COPY evil/sub/secret /loot/",
    "a linked folder of the context": "COPY evil/app/ /loot/",
    "a pattern of the context": "COPY evil/sub/* /loot/",
    "a pattern in a linked folder of the context": "COPY evil/app/* /loot/",
    "dots in the context": "COPY evil/app/../../../../../../..{host}/secret /loot/",
    "an archive by a link": "ADD evil/archive.tar /loot/",
}


@pytest.mark.parametrize("instruction", READS.values(), ids=READS)
def test_nothing_of_the_host_gets_into_the_image(
    instruction: str, tmp_path: Path, host: Path, folder: Path
) -> None:
    with tarfile.open(host / "archive.tar", "w") as archive:
        archive.add(host / "secret", "secret")
    (folder / "evil/archive.tar").symlink_to(host / "archive.tar")
    before = state(host)
    try:
        root = build(tmp_path, folder, f"{EVIL}{instruction.format(host=host)}\n")
    except ArgosyError as refused:
        assert str(refused).startswith(f"{folder}/Containerfile:6: ")
    else:
        assert not holds_secret(root)
    assert not holds_secret(tmp_path / "store")
    assert state(host) == before


@pytest.mark.parametrize("name", ["../../{up}{host}/new", "..", "{host}/new", "sub/../../x"])
def test_a_here_documents_name_leads_nowhere_else(
    name: str, tmp_path: Path, host: Path, folder: Path
) -> None:
    before, name = state(host), name.format(host=host, up="../" * 20)
    text = f"FROM scratch\nCOPY good/ /t/\nCOPY <<{name} /t/\ntext\n{name}\n"
    try:
        build(tmp_path, folder, text)
    except ArgosyError as refused:
        assert str(refused).startswith(f"{folder}/Containerfile:3: ")
    assert state(host) == before


def test_an_archive_that_leads_out_stays_in(tmp_path: Path, host: Path, folder: Path) -> None:
    before = state(host)
    with tarfile.open(folder / "a.tar", "w") as archive:
        archive.addfile(*member("link", type=tarfile.SYMTYPE, linkname=str(host)))
        archive.addfile(*member("link/f"))
        archive.addfile(*member("link/.bashrc"))
        archive.addfile(*member(f"{host}/absolute"))
    with tarfile.open(folder / "b.tar", "w") as archive:
        archive.addfile(*member("hard", type=tarfile.LNKTYPE, linkname=f"{host}/secret"))
    for name in ("a", "b"):
        try:
            root = build(tmp_path, folder, f"FROM scratch\nADD {name}.tar /t/\n")
        except ArgosyError as refused:
            assert f"{name}.tar cannot be unpacked" in str(refused)
        else:
            assert not holds_secret(root)
        assert state(host) == before


def test_an_archive_keeps_modes_times_and_second_names(tmp_path: Path, folder: Path) -> None:
    with tarfile.open(folder / "a.tar.gz", "w:gz") as archive:
        archive.addfile(*member(".", type=tarfile.DIRTYPE, mode=0o711, mtime=5))
        archive.addfile(*member("kept", type=tarfile.DIRTYPE, mode=0o750, mtime=7))
        archive.addfile(*member("kept/one", mode=0o640, mtime=9))
        archive.addfile(*member("kept/two", type=tarfile.LNKTYPE, linkname="kept/one"))
        archive.addfile(*member("sub/implied/f", mtime=11))
        archive.addfile(*member("link", type=tarfile.SYMTYPE, linkname="kept/one", mtime=13))
    text = "FROM scratch\nCOPY --chmod=700 good/ /t/\nADD a.tar.gz /t/\n"
    root = build(tmp_path, folder, text)
    # Folders of a frozen tree are read-only.
    assert stat.S_IMODE((root / "t").stat().st_mode) == 0o511
    assert stat.S_IMODE((root / "t/kept").stat().st_mode) == 0o550
    assert (root / "t/kept").stat().st_mtime == 7
    assert stat.S_IMODE((root / "t/sub").stat().st_mode) == 0o500
    assert stat.S_IMODE((root / "t/sub/implied").stat().st_mode) == 0o555
    one, two = (root / "t/kept/one").stat(), (root / "t/kept/two").stat()
    assert (stat.S_IMODE(one.st_mode), one.st_mtime, one.st_ino) == (0o640, 9, two.st_ino)
    assert (root / "t/link").readlink() == Path("kept/one")
    assert (root / "t/link").lstat().st_mtime == 13
    assert (root / "t/sub/implied/f").read_text() == "text"


@pytest.mark.parametrize(
    ("name", "target"), [("a/..", "/sub/"), ("a/f", "/app/"), ("a/file", "/"), ("a/f", "/file")]
)
def test_what_is_fetched_stays_in_the_image(
    name: str, target: str, tmp_path: Path, host: Path, folder: Path
) -> None:
    before = state(host)
    checksum = f"--checksum=sha256:{sha256(b'content').hexdigest()}"
    with serving(lambda *_: Answer(body=b"content")) as server:
        text = f"{EVIL}ADD {checksum} http://{server.address}/{name} {target}\n"
        if name == "a/..":
            with pytest.raises(ArgosyError, match=r"Containerfile:6: ADD: .*not the name of a"):
                build(tmp_path, folder, text)
        else:
            assert not holds_secret(build(tmp_path, folder, text))
    assert state(host) == before


@pytest.mark.parametrize("target", ["", "folder", "empty-folder", "file", "missing"])
def test_a_base_whose_dev_is_a_link(target: str, tmp_path: Path, host: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root/dev").symlink_to(host / target)
    before = state(host)
    empty_dev(tmp_path / "root")
    assert state(host) == before
    assert (tmp_path / "root/dev").is_dir()
    assert not (tmp_path / "root/dev").is_symlink()


FROZEN = {
    "links": ("etc", "run", "job", ".bind_host_files"),
    "files": ("tmp", "run", "etc"),
}


@pytest.mark.parametrize("kind", FROZEN)
def test_mount_points_of_frozen_trees_stay_in_the_image(
    kind: str, tmp_path: Path, host: Path, folder: Path
) -> None:
    before = state(host)
    for name in FROZEN[kind]:
        (folder / "mounts").mkdir(exist_ok=True)
        if kind == "links":
            (folder / "mounts" / name).symlink_to(host / "folder")
        else:
            (folder / "mounts" / name).touch()
    text = "FROM scratch\nCOPY mounts/ /\n"
    if kind == "links":
        build(tmp_path, folder, text)
    else:
        with pytest.raises(ArgosyError, match=r"^image image cannot be used: /run"):
            build(tmp_path, folder, text)
    assert state(host) == before


def test_a_folder_in_place_of_a_host_file_is_refused(tmp_path: Path, folder: Path) -> None:
    (folder / "good/hosts").mkdir()
    with pytest.raises(ArgosyError, match="image image cannot be used: /etc/hosts: Is a directory"):
        build(tmp_path, folder, "FROM scratch\nCOPY good/hosts/ /etc/hosts/\n")


def test_a_named_link_of_the_folder_counts_by_its_content(tmp_path: Path, folder: Path) -> None:
    (folder / "link").symlink_to("good/f")
    text = "FROM scratch\nCOPY link /\n"
    assert (build(tmp_path, folder, text) / "link").read_text() == "of the image: f"
    (folder / "good/f").write_text("changed")
    assert (build(tmp_path, folder, text) / "link").read_text() == "changed"


def test_programs_that_change_their_user_lie_where_nobody_else_can_enter(
    tmp_path: Path, folder: Path
) -> None:
    (folder / "good/become").write_text("a program")
    (folder / "good/become").chmod(0o6755)
    text = "FROM scratch\nCOPY good/ /\n"
    root = build(tmp_path, folder, text)
    assert stat.S_IMODE((root / "become").stat().st_mode) == 0o755
    # Freezing continues a tree begun before the last step.
    root = build(tmp_path, folder, f"{text}COPY good/f /more\nCOPY --chmod=4711 good/f /other\n")
    assert stat.S_IMODE((root / "become").stat().st_mode) == 0o755
    assert stat.S_IMODE((root / "other").stat().st_mode) == 0o711
    # An exported image is unchanged.
    store = Store(tmp_path / "store")
    export_image(store, ImageLock.read(tmp_path / "image.lock"), tmp_path / "exported.tar")
    assert exported_modes(tmp_path / "exported.tar") == {"become": 0o6755, "other": 0o4711}
    for path in (store.layer(""), *store.layer("").iterdir()):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    # So is an imported image.
    locked = import_image(store, tmp_path / "project", tmp_path / "exported.tar", "imported")
    remove_tree(store.root(locked.digest))
    locked = import_image(store, tmp_path / "project", tmp_path / "exported.tar", "imported")
    assert stat.S_IMODE((store.root(locked.digest) / "become").stat().st_mode) == 0o755


def exported_modes(archive: Path) -> dict[str, int]:
    """Return the setuid programs of all layers."""
    found = {}
    with tarfile.open(archive) as outer:
        for blob in filter(tarfile.TarInfo.isfile, outer):
            stream = outer.extractfile(blob)
            with suppress(tarfile.ReadError), tarfile.open(fileobj=stream) as layer:
                found |= {m.name: m.mode for m in layer if m.mode & 0o6000}
    return {name.removeprefix("./"): mode for name, mode in found.items()}


COPIES = {
    "a file": "COPY good/f /",
    "a folder": "COPY good/ /good/",
    "a new folder": "COPY empty/ /good/",
    "a stage": "FROM scratch\nCOPY --from=a /s /",
    "an archive": "ADD sparse.tar.gz /",
    "a text": "COPY <<end /text\na line\nend",
}


@pytest.mark.usefixtures("workspace")
@pytest.mark.parametrize("instruction", COPIES.values(), ids=COPIES)
def test_a_copy_leaves_the_disk_its_reserve(
    instruction: str, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "empty/folder").mkdir(parents=True)
    holes = tmp_path / "holes"
    holes.touch()
    os.truncate(holes, 1 << 42)
    command = ["tar", "--sparse", "-czf", folder / "sparse.tar.gz", "-C", tmp_path, "holes"]
    subprocess.run(command, check=True)
    build(tmp_path, folder, "FROM scratch AS a\nCOPY good/ /s/\n")
    if "sparse" not in instruction:
        monkeypatch.setattr(disk, "RESERVE", 1 << 60)
    with pytest.raises((ArgosyError, OSError), match=r"do not fit: .* stay reserved"):
        build(tmp_path, folder, f"FROM scratch AS a\nCOPY good/ /s/\n{instruction}\n")
    used = sum(path.lstat().st_blocks for path in (tmp_path / "store").rglob("*"))
    assert used * 512 < 10 << 20


def test_a_bound_folder_is_copied_as_far_as_the_disk_keeps_its_reserve(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    execution._copy(folder / "good", tmp_path / "copy", None)
    assert (tmp_path / "copy/sub/f").is_file()
    monkeypatch.setattr(disk, "RESERVE", 1 << 60)
    with pytest.raises(ArgosyError, match=r"do not fit: .*: free space"):
        execution._copy(folder / "good", tmp_path / "other", None)


def test_others_read_no_log_of_a_build(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "build.log"
    log.touch(0o644)
    build(tmp_path, folder, "FROM scratch\nCOPY good/ /\n")
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    monkeypatch.setenv("ARGOSY_UMASK", "027")
    build(tmp_path, folder, "FROM scratch\nCOPY good/ /\n")
    assert stat.S_IMODE(log.stat().st_mode) == 0o640
