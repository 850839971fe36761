"""Hostile and damaged bundles, and repeated unpacking."""

import json
import random
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from bundled_studies import RUN, bundled, contents, forged, make_project

from argosy.bundle.unbundling import unbundle
from argosy_common import disk
from argosy_common.errors import ArgosyError
from argosy_images.oci import ImageConfig
from argosy_images.store.lockfile import ImageLock, LockedBase

Files = dict[str, bytes]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("bundles")
    project = make_project(top / "study")
    (project / "workflow/tool.sh").write_text("#!/bin/sh\n")
    (project / "workflow/tool.sh").chmod(0o755)
    return bundled(project, top / "study.zip")


def unpack(bundle: Path, folder: Path) -> list[str]:
    return unbundle(bundle, folder, lambda line: None)


def tree(folder: Path) -> Files:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_what_was_bundled_is_there_again(bundle: Path, tmp_path: Path) -> None:
    [said] = unpack(bundle, tmp_path / "project")
    assert "results of testbed" in said
    found, wanted = tree(tmp_path / "project"), contents(bundle)
    del wanted["manifest-sha256.txt"]
    assert found == wanted
    modes = {
        name: (tmp_path / "project" / name).stat().st_mode & 0o777
        for name in ("workflow/tool.sh", "Snakefile", ".")
    }
    assert modes == {"workflow/tool.sh": 0o755, "Snakefile": 0o644, ".": 0o700}
    assert [path.name for path in tmp_path.iterdir()] == ["project"]
    times = {path.stat().st_mtime for path in (tmp_path / "project").rglob("*") if path.is_file()}
    assert len(times) == 1


def test_again_and_after_an_interruption(bundle: Path, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    unpack(bundle, folder)
    wanted = tree(folder)
    (folder / "Snakefile").unlink()
    shutil.rmtree(folder / RUN)
    (folder / "notes.txt").write_text("mine")
    unpack(bundle, folder)
    assert tree(folder) == {**wanted, "notes.txt": b"mine"}


def test_after_others_have_unpacked_it(bundle: Path, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    with zipfile.ZipFile(bundle) as archive:
        archive.extractall(folder)
    unpack(bundle, folder)
    assert (folder / "workflow/tool.sh").stat().st_mode & 0o777 == 0o755


def test_only_its_own_files_are_made_executable(bundle: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("another's")
    outside.chmod(0o600)
    files = edited("executable", ["../outside", str(outside)])(contents(bundle))
    unpack(forged(tmp_path / "hostile.zip", files), tmp_path / "project")
    assert outside.stat().st_mode & 0o777 == 0o600


def test_the_disk_keeps_its_reserve(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "RESERVE", 1 << 60)
    with pytest.raises(ArgosyError, match=r"there is not enough space in .* stay reserved"):
        unpack(bundle, tmp_path / "project")
    assert not (tmp_path / "project").exists()


def test_what_is_there_is_never_overwritten(bundle: Path, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    unpack(bundle, folder)
    (folder / "config/config.yaml").write_text("experiments: {mine: {}}\n")
    (folder / "Snakefile").unlink()
    before = tree(folder)
    with pytest.raises(
        ArgosyError, match=r"config/config\.yaml exists and differs from the bundle"
    ):
        unpack(bundle, folder)
    assert tree(folder) == before


def test_a_folder_that_is_a_link_and_files_that_are(bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ArgosyError, match="link: is not a folder"):
        unpack(bundle, tmp_path / "link")
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "results").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ArgosyError, match="results"):
        unpack(bundle, folder)
    assert not list((tmp_path / "elsewhere").iterdir())


@pytest.mark.parametrize(
    "name",
    [
        "../outside",
        "/tmp/outside",
        "a/../../outside",
        "./a",
        "a//b",
        ".bashrc",
        "workflow/.git/hooks/post-checkout",
        ".snakemake/locks/x",
        "results/a\x1b[31mb",
        "a\nb",
    ],
)
def test_names_that_lead_elsewhere(bundle: Path, tmp_path: Path, name: str) -> None:
    work = tmp_path / "work"
    work.mkdir()
    hostile = forged(work / "hostile.zip", {**contents(bundle), name: b"planted"})
    with pytest.raises(ArgosyError, match="contains a file named"):
        unpack(hostile, work / "project")
    assert [path.name for path in work.iterdir()] == ["hostile.zip"]
    assert [path.name for path in tmp_path.iterdir()] == ["work"]


def test_a_link_in_the_archive_is_a_file_with_its_text(bundle: Path, tmp_path: Path) -> None:
    hostile = tmp_path / "hostile.zip"
    forged(hostile, {**contents(bundle), "config/link": b"/etc/passwd"})
    with zipfile.ZipFile(hostile, "a") as archive:
        archive.getinfo("config/link").external_attr = 0o120777 << 16
        # Make zipfile rewrite the list of names.
        archive._didModify = True  # type: ignore[attr-defined]
    unpack(hostile, tmp_path / "project")
    path = tmp_path / "project/config/link"
    assert not path.is_symlink()
    assert path.read_text() == "/etc/passwd"


def test_two_files_of_one_name(bundle: Path, tmp_path: Path) -> None:
    hostile = forged(tmp_path / "hostile.zip", contents(bundle))
    with zipfile.ZipFile(hostile, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("Snakefile", "another")
    with pytest.raises(ArgosyError, match="two files named 'Snakefile'"):
        unpack(hostile, tmp_path / "project")


def test_a_file_that_is_a_folder_too(bundle: Path, tmp_path: Path) -> None:
    hostile = forged(tmp_path / "hostile.zip", {**contents(bundle), "Snakefile/x": b""})
    with pytest.raises(ArgosyError, match="is both a file and a folder"):
        unpack(hostile, tmp_path / "project")


def edited(key: str, value: object) -> Callable[[Files], Files]:
    def edit(files: Files) -> Files:
        description = json.loads(files["argosy-bundle.json"])
        return {**files, "argosy-bundle.json": json.dumps({**description, key: value}).encode()}

    return edit


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (edited("schema_version", 2), "argosy-bundle.json: schema_version: "),
        (edited("unheard_of", 1), "unheard_of: no such key"),
        (
            edited("images", [{"name": "../x", "digest": f"sha256:{0:064}", "archive": None}]),
            "images.0.name: ",
        ),
        (
            edited("images", [{"name": "x", "digest": "x$(touch${IFS}canary)", "archive": None}]),
            "images.0.digest: ",
        ),
        (
            edited("images", [{"name": "x", "digest": f"sha256:{0:064}", "archive": "y.tar"}]),
            "contains no image.lock of x",
        ),
        (lambda files: {**files, "argosy-bundle.json": b"{"}, "argosy-bundle.json: "),
    ],
)
def test_a_description_that_is_not_right(
    bundle: Path, tmp_path: Path, edit: Callable[[Files], Files], said: str
) -> None:
    hostile = forged(tmp_path / "hostile.zip", edit(contents(bundle)))
    with pytest.raises(ArgosyError) as problem:
        unpack(hostile, tmp_path / "project")
    assert said in str(problem.value)
    assert not (tmp_path / "project").exists()


@pytest.mark.parametrize("is_there", [False, True])
def test_a_damaged_image_leaves_nothing(bundle: Path, tmp_path: Path, is_there: bool) -> None:
    digest = f"sha256:{'1' * 64}"
    files = contents(bundle)
    lock = ImageLock(
        name="x",
        digest=digest,
        architecture="x86_64",
        base=LockedBase(reference="a file", source="file", diff_id=f"sha256:{0:064}"),
        steps=(),
        config=ImageConfig(),
    )
    lock.write(tmp_path / "image.lock")
    files["resources/images/x/image.lock"] = (tmp_path / "image.lock").read_bytes()
    files["images/x.oci.tar"] = b"no archive of an image"
    image = {"name": "x", "digest": digest, "archive": "images/x.oci.tar"}
    hostile = forged(tmp_path / "hostile.zip", edited("images", [image])(files))
    folder = tmp_path / "project"
    if is_there:
        folder.mkdir()
        (folder / "mine").write_text("mine")
    with pytest.raises(ArgosyError):
        unpack(hostile, folder)
    assert not [*tmp_path.glob(".unbundling*")]
    assert folder.exists() == is_there
    if is_there:
        assert [path.name for path in folder.iterdir() if path.name != ".argosy"] == ["mine"]


def test_another_version_and_what_is_no_bundle(bundle: Path, tmp_path: Path) -> None:
    newer = forged(
        tmp_path / "a.zip", contents(bundle), comment=b"argosy bundle 2 sha256:" + b"0" * 64
    )
    with pytest.raises(ArgosyError, match="is a bundle of version 2; this Argosy reads 1"):
        unpack(newer, tmp_path / "project")
    other = forged(tmp_path / "b.zip", contents(bundle), comment=b"something")
    with pytest.raises(ArgosyError, match="is a ZIP file, but not an Argosy bundle"):
        unpack(other, tmp_path / "project")
    text = tmp_path / "c.zip"
    text.write_text("no archive")
    with pytest.raises(ArgosyError, match="is not a bundle, or is truncated"):
        unpack(text, tmp_path / "project")
    with pytest.raises(ArgosyError, match="there is no such file"):
        unpack(tmp_path / "d.zip", tmp_path / "project")


def test_a_bundle_cut_off_anywhere(bundle: Path, tmp_path: Path) -> None:
    content, chance = bundle.read_bytes(), random.Random(5)
    cut = tmp_path / "cut.zip"
    for length in [0, len(content) - 1, *(chance.randrange(len(content)) for _ in range(40))]:
        cut.write_bytes(content[:length])
        with pytest.raises(ArgosyError):
            unpack(cut, tmp_path / "project")
        assert [path.name for path in tmp_path.iterdir()] == ["cut.zip"]
