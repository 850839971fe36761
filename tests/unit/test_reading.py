"""The reader of untrusted files: paths, limits of size, and no blocking."""

import errno
import os
import time
from pathlib import Path

import pytest
from planted_files import SECRET, Outside, plant

from argosy_common import reading
from argosy_common.reading import NotReadError, open_below

FILES = ("control characters", "deep JSON", "wrong types", "wide JSON")
"""Planted objects that are regular, readable files."""


@pytest.fixture(autouse=True, params=["one call", "part by part"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test with and without openat2(2)."""

    def missing(folder: int, path: str, flags: int) -> int:
        raise OSError(errno.ENOSYS, "Function not implemented")

    if request.param == "part by part":
        monkeypatch.setattr(reading, "open_below", missing)


@pytest.fixture
def outside(tmp_path: Path) -> Outside:
    return Outside(tmp_path / "outside")


@pytest.fixture
def top(tmp_path: Path) -> Path:
    folder = tmp_path / "top"
    (folder / "a" / "b").mkdir(parents=True)
    return folder


def test_a_file_below_is_read(top: Path) -> None:
    (top / "a/b/c").write_text("content")
    assert reading.read_bytes(top / "a/b/c", top) == b"content"
    assert reading.read_end(top / "a/b/c", top, 3) == (b"ent", False)
    assert reading.read_end(top / "a/b/c", top, 7) == (b"content", True)


def test_the_trusted_folder_itself_may_be_a_link(top: Path, tmp_path: Path) -> None:
    (top / "a/b/c").write_text("content")
    (tmp_path / "link").symlink_to(top)
    assert reading.read_text(tmp_path / "link/a/b/c", tmp_path / "link") == "content"


@pytest.mark.parametrize("place", ["a", "a/b", "a/b/c"])
def test_whatever_stands_in_any_part_of_the_path(top: Path, outside: Outside, place: str) -> None:
    for what, put in outside.kinds().items():
        (top / "a/b").mkdir(parents=True, exist_ok=True)
        plant(top / place, put)
        if place == "a/b/c" and what in FILES:
            continue
        began = time.monotonic()
        for read in (
            reading.read_bytes,
            reading.read_object,
            reading.check_regular,
            lambda path, top: [*reading.entries(path, top)] if place != "a/b/c" else _fail(),
        ):
            with pytest.raises(OSError, match=r"is |holds|No such|Not a") as problem:
                read(top / "a/b/c", top)
            assert SECRET not in str(problem.value)
        assert time.monotonic() - began < 1, what
        plant(top / place, Path.touch)
        (top / place).unlink()


def _fail() -> None:
    raise NotReadError(Path("x"), "is left out")


@pytest.mark.parametrize("name", ["../outside/secret", "a/../../outside/secret", "/etc/passwd", ""])
def test_a_path_does_not_lead_out(top: Path, outside: Outside, name: str) -> None:
    with pytest.raises(NotReadError, match="lies outside"):
        reading.read_bytes(top / name, top)


def test_half_a_character_is_no_name_of_a_file(top: Path) -> None:
    with pytest.raises(NotReadError, match="is not a file name"):
        reading.read_bytes(top / "a\ud800", top)


def test_sizes_and_numbers_have_a_bound(top: Path) -> None:
    (top / "large").write_bytes(b"x" * 11)
    with pytest.raises(NotReadError, match="is larger than"):
        reading.read_bytes(top / "large", top, 10)
    for number in range(11):
        (top / "a" / f"{number}").touch()
    with pytest.raises(NotReadError, match="contains more than 10 entries"):
        [*reading.entries(top / "a", top, 10)]


def test_of_a_file_without_end_its_end_is_read(top: Path, outside: Outside) -> None:
    outside.kinds()["endless file"](top / "log")
    assert reading.read_end(top / "log", top, 4) == (b"\0" * 4, False)
    with (
        pytest.raises(NotReadError, match="is larger than"),
        reading.open_regular(top / "log", top),
    ):
        pass


def test_no_descriptor_is_left_open(top: Path, outside: Outside) -> None:
    before = len([*Path("/proc/self/fd").iterdir()])
    for put in outside.kinds().values():
        plant(top / "x", put)
        for read in (reading.read_bytes, reading.status_of, reading.is_regular, reading.folders_in):
            try:
                read(top / "x", top)
            except OSError:
                continue
        plant(top / "x", Path.touch)
    assert len([*Path("/proc/self/fd").iterdir()]) == before


def test_this_kernel_opens_in_one_call(top: Path) -> None:
    (top / "a/b/c").write_text("content")
    (top / "link").symlink_to("a/b/c")
    folder = os.open(top, os.O_PATH)
    try:
        os.close(open_below(folder, "a/b/c", os.O_RDONLY))
        for path in ("link", "a/../../x", "/etc/passwd", "a/b/missing"):
            with pytest.raises(OSError, match=r"symbolic|cross-device|No such"):
                open_below(folder, path, os.O_RDONLY)
    finally:
        os.close(folder)
