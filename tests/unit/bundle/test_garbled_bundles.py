"""Garbled bundles and studies are refused in one line."""

import json
import os
import random
import shutil
import zipfile
from pathlib import Path

import pytest
from bundled_studies import RUN, bundled, contents, forged, make_project
from fuzzing import fuzz
from garbled import garbled, some_garbled

from argosy.bundle.unbundling import unbundle
from argosy_common.errors import ArgosyError

CHANGED_BYTES, GARBLED_FILES, GARBLED_STUDIES = 20_000, 2_000, 40
LOCK = "resources/images/x/image.lock"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("garbled")
    return make_project(top / "study")


@pytest.fixture(scope="module")
def bundle(project: Path) -> Path:
    return bundled(project, project.parent / "study.zip")


def taken(bundle: Path, folder: Path) -> str | dict[str, bytes]:
    """Return the error of a refused bundle, or the files of an unpacked one."""
    try:
        unbundle(bundle, folder, lambda line: None)
    except ArgosyError as problem:
        assert not folder.exists()
        return problem.problem
    files = [path for path in folder.rglob("*") if path.is_file()]
    found = {str(path.relative_to(folder)): path.read_bytes() for path in files}
    shutil.rmtree(folder)
    return found


def with_lock(bundle: Path, lock: bytes, name: str = "x") -> dict[str, bytes]:
    files = contents(bundle)
    description = json.loads(files["argosy-bundle.json"])
    image = {"name": name, "digest": f"sha256:{1:064}", "archive": None}
    files["argosy-bundle.json"] = json.dumps({**description, "images": [image]}).encode()
    return {**files, LOCK: lock}


@pytest.mark.parametrize(
    ("name", "comment", "said"),
    [
        ("a" * 300, None, "contains a file named"),
        ("/".join(["folder"] * 800), None, "contains a file named"),
        ("x", b"argosy bundle " + b"1" * 5000 + b" sha256:" + b"0" * 64, "not an Argosy bundle"),
        (
            "x",
            b"argosy bundle 1 sha256:" + b"0" * 64,
            "manifest-sha256.txt does not match its checksum",
        ),
    ],
)
def test_names_and_comments(
    bundle: Path, tmp_path: Path, name: str, comment: bytes | None, said: str
) -> None:
    hostile = tmp_path / "hostile.zip"
    forged(hostile, {**contents(bundle), name: b"planted"}, comment=comment)
    assert said in taken(hostile, tmp_path / "project")


def test_checksums_that_are_no_text(bundle: Path, tmp_path: Path) -> None:
    hostile = tmp_path / "hostile.zip"
    forged(hostile, contents(bundle), checksums=b"\xff\xfe  Snakefile\n")
    assert "not a line of checksums" in taken(hostile, tmp_path / "project")


@pytest.mark.parametrize("lock", [b"\xff\xfe", b"", b"{", b"[" * 5000, b'"\\ud800"'])
def test_an_image_lock_that_is_none(bundle: Path, tmp_path: Path, lock: bytes) -> None:
    hostile = forged(tmp_path / "hostile.zip", with_lock(bundle, lock))
    assert f"{LOCK}: " in taken(hostile, tmp_path / "project")


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_another_compression(bundle: Path, tmp_path: Path, method: int) -> None:
    hostile = forged(tmp_path / "hostile.zip", contents(bundle), method=method)
    assert "unsupported compression method" in taken(hostile, tmp_path / "project")


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA])
def test_changed_bytes(project: Path, tmp_path: Path, method: int) -> None:
    files = contents(bundled(project, tmp_path / "b.zip"))
    kept = ("argosy-bundle.json", "Snakefile", f"{RUN}/run.json")
    small = {name: files[name] for name in kept}
    whole = forged(tmp_path / "small.zip", small, method=method).read_bytes()
    chance, hostile, refused = random.Random(1), tmp_path / "hostile.zip", 0
    for _ in range(CHANGED_BYTES // 2):
        changed = bytearray(whole)
        for _ in range(chance.choice((1, 1, 2, 20))):
            begin = chance.randrange(len(changed))
            size = chance.choice((0, 1, 1, 4))
            changed[begin : begin + size] = chance.randbytes(chance.choice((0, 1, 1, 4)))
        hostile.write_bytes(changed)
        found = taken(hostile, tmp_path / "project")
        assert isinstance(found, str) or found == small
        refused += isinstance(found, str)
    assert refused > CHANGED_BYTES // 4


@pytest.mark.thorough
@pytest.mark.slow
def test_garbled_descriptions_and_checksums(bundle: Path, tmp_path: Path) -> None:
    files = {
        name: content
        for name, content in with_lock(bundle, b"{}").items()
        if not name.startswith(("results/", "ro-crate"))
    }
    chance, hostile = random.Random(2), tmp_path / "hostile.zip"
    for _ in range(GARBLED_FILES):
        text = garbled(files["argosy-bundle.json"].decode(), chance)
        taken(forged(hostile, {**files, "argosy-bundle.json": text.encode()}), tmp_path / "project")


def test_a_study_with_deep_folders_is_bundled(tmp_path: Path) -> None:
    project = make_project(tmp_path / "study")
    (project / RUN / "output").mkdir(exist_ok=True)
    here = os.open(project / RUN / "output", os.O_RDONLY)
    for name in ["d"] * 1500:
        os.mkdir(name, dir_fd=here)
        inner = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    assert bundled(project, tmp_path / "study.zip").is_file()


@pytest.mark.thorough
@pytest.mark.slow
def test_a_garbled_study_is_bundled_or_refused_in_a_line(project: Path, tmp_path: Path) -> None:
    files = sorted(project.glob("results/**/*.json*"))

    def is_bundled(chance: random.Random) -> bool:
        with some_garbled(files, chance):
            return bundled(project, tmp_path / "study.zip").is_file()

    fuzz(is_bundled, GARBLED_STUDIES, least=0.5)
