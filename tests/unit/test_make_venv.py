"""The environment of Argosy is made of the files that were tested, or the researcher says otherwise."""

import os
import subprocess
from pathlib import Path

import pytest

PACKAGE = "annotated-types"


def make_venv(project: Path, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run make-venv.sh on a lock with one package, of which the index has another file."""
    lock = (project / "requirements.lock").read_text().splitlines()
    begin = next(number for number, line in enumerate(lock) if line.startswith(PACKAGE))
    (folder / "requirements.lock").write_text(f"{lock[begin]}\n    --hash=sha256:{'0' * 64}\n")
    return subprocess.run(
        ["bash", project / "workflow/scripts/make-venv.sh", "venv"],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
    )


def test_every_package_has_its_hashes(project: Path) -> None:
    lines = (project / "requirements.lock").read_text().splitlines()
    pinned = [number for number, line in enumerate(lines) if "==" in line]
    assert len(pinned) > 50
    assert all(lines[number + 1].startswith("    --hash=sha256:") for number in pinned)


@pytest.mark.slow
def test_another_file_of_the_same_version_is_refused(project: Path, tmp_path: Path) -> None:
    done = make_venv(project, tmp_path)
    assert done.returncode == 2
    assert "DO NOT MATCH THE HASHES" in done.stderr
    assert done.stderr.splitlines()[-1].endswith("make HASHES=no setup takes them by version")
    assert not (tmp_path / "venv/.ready").exists()


@pytest.mark.slow
def test_a_site_with_wheels_of_its_own(project: Path, tmp_path: Path) -> None:
    done = make_venv(project, tmp_path, HASHES="no")
    # The folder holds no Argosy to be installed: that is the next step.
    assert "HASHES" not in done.stderr
    assert list(tmp_path.glob("venv/lib/python3*/site-packages/annotated_types"))
    assert done.returncode != 0, "there was nothing to install, and it ended well"


def test_a_path_of_which_a_shell_would_run_parts_is_refused(project: Path, tmp_path: Path) -> None:
    """pip's programs begin with `exec "<path>/python"` where a shebang cannot hold the path."""
    folder = tmp_path / "a $(touch ran) folder"
    folder.mkdir()
    done = make_venv(project, folder)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {folder}: ")
    assert [path.name for path in folder.iterdir()] == ["requirements.lock"]
