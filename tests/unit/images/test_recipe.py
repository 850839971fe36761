"""Step keys: equal where nothing that matters changed, different where something did."""

import os
from pathlib import Path

import pytest

from argosy.errors import ArgosyError
from argosy.images.containerfile import read_containerfile
from argosy.images.recipe import image_inputs, plan

TEXT = "FROM base\nENV A=1\nCOPY data/ /data/\nRUN first\nRUN last\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "file").write_text("content")
    (tmp_path / "Containerfile").write_text(TEXT)
    return tmp_path


def keys(folder: Path, text: str = TEXT) -> list[str]:
    (folder / "Containerfile").write_text(text)
    return [step.key for step in plan(read_containerfile(folder / "Containerfile"))]


def test_a_changed_last_step_changes_no_other_key(folder: Path) -> None:
    before, after = keys(folder), keys(folder, TEXT.replace("last", "other"))
    assert before[:-1] == after[:-1]
    assert before[-1] != after[-1]


def test_a_changed_step_changes_all_keys_after_it(folder: Path) -> None:
    before, after = keys(folder), keys(folder, TEXT.replace("A=1", "A=2"))
    assert before[0] == after[0]
    assert all(old != new for old, new in zip(before[1:], after[1:], strict=True))


def test_content_and_mode_of_copied_files_count_and_time_stamps_do_not(folder: Path) -> None:
    before = keys(folder)
    os.utime(folder / "data" / "file", (1, 1))
    assert keys(folder) == before
    (folder / "data" / "file").write_text("other")
    changed = keys(folder)
    assert changed[1] == before[1]
    assert changed[2] != before[2]
    (folder / "data" / "file").chmod(0o755)
    assert keys(folder)[2] != changed[2]


def test_comments_and_layout_do_not_count(folder: Path) -> None:
    assert keys(folder) == keys(folder, "# why\n" + TEXT.replace("ENV A=1", "ENV   A=1"))


def test_arguments_reach_the_steps_after_them(folder: Path) -> None:
    text = "FROM base\nARG V=1\nRUN get $V\n"
    assert keys(folder, text)[2] != keys(folder, text.replace("V=1", "V=2"))[2]


def test_an_argument_without_a_default_hides_nothing_of_the_host(folder: Path) -> None:
    (folder / "Containerfile").write_text("FROM base\nARG https_proxy\nRUN true\n")
    last = plan(read_containerfile(folder / "Containerfile"))[-1]
    assert "https_proxy" not in last.settings.variables


@pytest.mark.parametrize(
    ("copy", "message"),
    [
        ("COPY missing /x", "there is no missing in"),
        ("COPY ../secret /x", "../secret lies outside of"),
        ("COPY data", "COPY needs a source and a target"),
        ("COPY data Containerfile /x", "several sources need a folder: /x/"),
    ],
)
def test_copy_refuses_by_line(folder: Path, copy: str, message: str) -> None:
    with pytest.raises(ArgosyError) as problem:
        keys(folder, f"FROM base\n\n{copy}\n")
    assert f"{folder / 'Containerfile'}:3: " in str(problem.value)
    assert message in str(problem.value)


def test_inputs_are_the_containerfile_and_what_it_copies(folder: Path) -> None:
    found = [Path(path).name for path in image_inputs(folder)]
    assert found == ["Containerfile", "file"]
