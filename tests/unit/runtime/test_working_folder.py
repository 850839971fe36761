"""Links to the project in a run's working directory, and their removal."""

import os
from pathlib import Path

import pytest

from argosy.runtime.working_folder import MOST_ENTRIES, hide, make_folder, show

FILES = ("train.py", "configs/base.yaml", "runs/a/x", "runs/b/x", ".git/HEAD", "notes.txt")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in (*FILES, "results/x", "logs/x", "__pycache__/x"):
        (tmp_path / "project" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "project" / name).write_text(name)
    return tmp_path / "project"


@pytest.fixture
def output(tmp_path: Path) -> Path:
    (tmp_path / "output").mkdir()
    return tmp_path / "output"


def shown(output: Path) -> dict[str, str | None]:
    return {
        str(path.relative_to(output)): str(path.readlink()) if path.is_symlink() else None
        for path in sorted(output.rglob("*"))
    }


def test_all_but_outputs_and_argosy_s_own_is_shown(output: Path, project: Path) -> None:
    asked = ("runs/b", "notes.txt", "/home/results", "absent")
    assert not [*show(str(output), str(project), "/workloads", asked)]
    assert shown(output) == {
        **{name: f"/workloads/{name}" for name in (".git", "configs", "train.py", "runs/a")},
        "runs": None,
        "runs/b": None,
    }
    (output / "runs/b/mine").write_text("")
    (output / "train.log").symlink_to("/workloads/other")
    # A killed attempt leaves its links; the next attempt finds them.
    assert not [*show(str(output), str(project), "/workloads", asked)]
    hide(str(output), "/workloads", asked)
    assert [*shown(output)] == ["runs", "runs/b", "runs/b/mine", "train.log"]


def test_what_a_program_wrote_is_not_replaced_and_no_link_followed(
    output: Path, project: Path, tmp_path: Path
) -> None:
    (elsewhere := tmp_path / "elsewhere").mkdir()
    (output / "runs").symlink_to(elsewhere)
    (output / "configs").mkdir()
    assert not [*show(str(output), str(project), "/workloads", ("runs/b",))]
    hide(str(output), "/workloads", ("runs/b",))
    assert not [*elsewhere.iterdir()]
    assert (output / "configs").is_dir() and not (output / "configs").is_symlink()
    with pytest.raises(NotADirectoryError):
        make_folder(str(output), "/runs/results")
    make_folder(str(output), "/home/results")
    assert (output / "home/results").is_dir() and not [*elsewhere.iterdir()]


def test_a_folder_as_large_as_data_is_not_shown_and_that_is_said(
    output: Path, project: Path
) -> None:
    for number in range(MOST_ENTRIES + 1):
        os.close(os.open(project / f"{number}.npy", os.O_CREAT))
    (said,) = show(str(output), str(project), "/workloads", ())
    assert said.startswith("/workloads has over 1,000 entries") and not shown(output)
