"""SIF files are imported without root, with the checks of layers, and never executed."""

import os
import stat
import subprocess
from pathlib import Path
from urllib.parse import quote

import pytest
from sif_files import make_sif, make_squashfs

from argosy_common.errors import ArgosyError
from argosy_images.builder.builder import build_image
from argosy_images.builder.recipe import image_inputs, plan
from argosy_images.interchange.exporting import export_image
from argosy_images.interchange.importing import take_image
from argosy_images.oci import architecture
from argosy_images.store.lockfile import ImageLock
from argosy_images.store.store import Store
from argosy_images.tools import Tools

ENVIRONMENT = """\
#!/bin/sh
export PATH="/opt/venv/bin:/usr/bin"
export PYTHON_VERSION="${PYTHON_VERSION:-"3.12"}"
export QUOTED='a $b'
export BARE=C.UTF-8
export RUN="$(touch /tmp/argosy-sif)"
export JOINED="$PATH:/x"
source /etc/profile
"""


class Place:
    """A store, and a folder to pack into a SIF file and import."""

    def __init__(self, folder: Path, tools: Store) -> None:
        self.tools = tools
        self.project = folder / "project"
        self.store = Store(self.project / ".argosy")
        self.root = folder / "root"
        self.file = folder / "my image.sif"
        self.said: list[str] = []
        for name in ("project", "root/bin", "root/.singularity.d/env"):
            (folder / name).mkdir(parents=True)
        (self.root / "bin/tool").write_text("#!/bin/sh\n")
        (self.root / "bin/tool").chmod(0o755)
        # Use the program that the checkout's store has unpacked.
        self.store.path.mkdir()
        self.store.tools.symlink_to(tools.tools)

    def squashfs(self, *options: str) -> bytes:
        return make_squashfs(
            self.tools, self.root, self.file.with_suffix(".sq"), *options
        ).read_bytes()

    def take(self) -> ImageLock:
        return take_image(self.store, self.project, str(self.file), "sif", self.said.append)

    def refuses(self, said: str) -> None:
        with pytest.raises(ArgosyError) as told:
            self.take()
        assert said in str(told.value) and str(self.file) in str(told.value)
        assert "\n" not in str(told.value)
        assert not [*self.store.path.glob("layers/*/*")] and not [*self.store.path.glob("roots/*")]
        assert not [*self.store.path.glob("builds/*/*")]


@pytest.fixture
def place(tmp_path: Path, project_store: Store) -> Place:
    return Place(tmp_path, project_store)


@pytest.mark.parametrize("compression", ["gzip", "zstd"])
def test_a_sif_file_is_an_image_with_its_literal_variables(place: Place, compression: str) -> None:
    (place.root / ".singularity.d/env/10-docker2singularity.sh").write_text(ENVIRONMENT)
    (place.root / ".singularity.d/env/95-apps.sh").write_text("export NOT=taken\n")
    (place.root / "bin/sh").symlink_to("/bin/tool")
    (place.root / "out").symlink_to("../../../../etc")
    (place.root / "private").mkdir(mode=0o000)
    os.link(place.root / "bin/tool", place.root / "bin/second")
    pseudo = (
        "-p",
        "bin/su f 4755 0 0 echo x",
        "-p",
        "dev d 755 0 0",
        "-p",
        "dev/null c 666 0 0 1 3",
    )
    place.root.joinpath("private").chmod(0o700)
    make_sif(place.file, place.squashfs("-comp", compression, *pseudo, "-p", "private m 0 0 0"))
    lock = place.take()
    assert lock.config.environment == {
        "PATH": "/opt/venv/bin:/usr/bin",
        "PYTHON_VERSION": "3.12",
        "QUOTED": "a $b",
        "BARE": "C.UTF-8",
    }
    told = next(line for line in place.said if "are ignored" in line)
    assert "touch" in told and "$PATH:/x" in told and "source /etc/profile" in told
    assert (lock.base.source, lock.base.reference) == ("file", "my image.sif")
    root = place.store.root(lock.digest)
    assert (root / "bin/tool").read_text() == "#!/bin/sh\n"
    assert (root / "bin/tool").stat().st_ino == (root / "bin/second").stat().st_ino
    assert (root / "out").readlink() == Path("../../../../etc")
    # No program of a store is setuid: it would give others the user's rights.
    assert stat.S_IMODE((root / "bin/su").stat().st_mode) == 0o755
    assert not [*(root / "dev").glob("null")] or (root / "dev/null").is_file()
    assert place.take() == lock


def test_an_image_is_built_upon_a_sif_file_and_upon_an_archive(place: Place) -> None:
    (place.root / ".singularity.d/env/90-environment.sh").write_text("export FROM=sif\n")
    make_sif(place.file, place.squashfs())
    archive = place.file.with_name("my archive.tar")
    export_image(place.store, place.take(), archive)
    folder = place.project / "containers/own"
    folder.mkdir(parents=True)
    built = []
    for file in (place.file, archive):
        (folder / "Containerfile").write_text(
            f"FROM file://{quote(str(file))}\nCOPY Containerfile /\n"
        )
        lock = build_image(place.store, folder, folder / "image.lock", folder / "log")
        assert (lock.base.source, lock.base.reference) == ("file", file.name)
        assert lock.config.environment == {"FROM": "sif"}
        assert (place.store.root(lock.digest) / "bin/tool").is_file()
        assert image_inputs(folder) == [str(folder / "Containerfile"), str(file)]
        built.append(plan(folder).final.key)
        os.utime(file, (1, 1))
        built.append(plan(folder).final.key)
    assert len({*built}) == 4
    file.unlink()
    with pytest.raises(ArgosyError, match=r"Containerfile:1: .*my archive.tar: No such file"):
        plan(folder)


def test_a_file_that_another_tool_wrote_is_read(place: Place) -> None:
    program = Tools(place.tools).require("siftool", print)
    place.squashfs()
    machine = {"amd64": "2", "arm64": "4"}[architecture()]
    kind = ("--datatype=4", "--parttype=2", "--partfs=1", f"--partarch={machine}")
    place.root.joinpath("recipe").write_text("bootstrap: scratch\n")
    for words in (
        ("new", place.file),
        ("add", "--datatype=1", place.file, place.root / "recipe"),
        ("add", *kind, place.file, place.file.with_suffix(".sq")),
    ):
        subprocess.run([program, *words], env=Tools(place.tools).environment(), check=True)
    lock = place.take()
    assert (place.store.root(lock.digest) / "bin/tool").is_file()
    assert not (place.store.root(lock.digest) / "recipe").exists()


def test_what_argosy_cannot_use_is_refused_in_one_line(place: Place) -> None:
    content = place.squashfs()
    other = b"04" if architecture() == "amd64" else b"02"
    make_sif(place.file, content, kind=5)
    place.refuses("this SIF file is encrypted")
    make_sif(place.file, content, kind=2)
    place.refuses("the root file system of this SIF file is no SquashFS")
    make_sif(place.file, content, part=4)
    place.refuses("has no root file system")
    make_sif(place.file, content, machine=other)
    place.refuses(f"but this machine is linux/{architecture()}")
    make_sif(place.file, content)
    whole = place.file.read_bytes()
    for length in (60, 100, 5000, 4096 + 48 * 585, len(whole) - 5000):
        place.file.write_bytes(whole[:length])
        place.refuses("damaged or cut off")
    place.file.write_bytes(whole[:-4096].replace(b"hsqs", b"HSQS") + bytes(4096))
    place.refuses("superblock")
    place.file.write_text("#!/bin/sh\n")
    place.refuses("not an archive")


@pytest.mark.parametrize(
    ("pseudo", "said"),
    [
        (("sda b 660 0 0 8 0",), "sda"),
        (("bin/.wh.tool f 644 0 0 true",), "layers cannot contain names that begin with .wh."),
    ],
)
def test_files_that_no_layer_may_hold_are_refused(
    place: Place, pseudo: tuple[str, ...], said: str
) -> None:
    make_sif(place.file, place.squashfs(*(word for each in pseudo for word in ("-p", each))))
    with pytest.raises(ArgosyError, match=said):
        place.take()


def test_a_damaged_file_system_leaves_nothing(place: Place) -> None:
    (place.root / "bin/data").write_bytes(os.urandom(300_000))
    content = bytearray(place.squashfs())
    for start in range(96, len(content), 997):
        content[start] ^= 0xFF
    make_sif(place.file, bytes(content))
    with pytest.raises(ArgosyError):
        place.take()
    assert not [*place.store.path.glob("layers/*/*")]
