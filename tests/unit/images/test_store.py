"""Where a project's images lie."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from argosy.errors import ArgosyError
from argosy.images.store import store as module
from argosy.images.store import strict_modes
from argosy.images.store.store import Store, remove_tree

HOLD = """
import sys, time
from pathlib import Path
from argosy.images.store.store import Store, remove_tree
with Store(Path(sys.argv[1])).locked("image-x"):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_store_may_be_a_link_to_where_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "scratch").mkdir()
    (tmp_path / "project").mkdir()
    (tmp_path / "project/.argosy").symlink_to(tmp_path / "scratch")
    assert Store.of_project(tmp_path / "project").path == tmp_path / "scratch"
    monkeypatch.setenv("ARGOSY_STORE", str(tmp_path / "project/.argosy"))
    assert Store.of_project(tmp_path).path == tmp_path / "scratch"


def test_a_store_that_others_may_write_to_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / ".argosy"
    folder.mkdir()
    for mode in (0o777, 0o1777, 0o775, 0o2775):
        folder.chmod(mode)
        monkeypatch.setattr(strict_modes, "_is_private_group", lambda group: False)
        with pytest.raises(ArgosyError, match=rf"^{folder}: .*chmod go-w .* ARGOSY_STORE"):
            Store.of_project(tmp_path)
    # Others may read and use it; and a group may be this user's alone.
    folder.chmod(0o755)
    assert Store.of_project(tmp_path).path == folder
    folder.chmod(0o775)
    monkeypatch.setattr(strict_modes, "_is_private_group", lambda group: True)
    assert Store.of_project(tmp_path).path == folder


def test_whoever_waits_for_another_build_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "QUIET_WAIT_S", 0.1)
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, tmp_path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdin and other.stdout
        assert other.stdout.readline() == "held\n"
        monkeypatch.setattr(sys, "stderr", Answering(other))
        with Store(tmp_path).locked("image-x"):
            pass
        said = f"waiting for process {other.pid} on {os.uname().nodename}, which holds {tmp_path}/locks/"
        assert "".join(sys.stderr.words).startswith(said)  # type: ignore[attr-defined]


class Answering:
    """A standard error; what is said there ends the other process's wait."""

    def __init__(self, other: "subprocess.Popen[str]") -> None:
        self.other = other
        self.words: list[str] = []

    def write(self, text: str) -> None:
        self.words.append(text)
        assert self.other.stdin
        self.other.stdin.close()

    def flush(self) -> None:
        """Nothing is kept back."""


def test_a_tree_goes_that_a_killed_process_still_adds_closed_folders_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed build's mount of overlay makes such a folder, once all others have been opened."""
    tree = tmp_path / "tree"
    (tree / "inner").mkdir(parents=True)
    opened_up = module._open_up
    mounts = iter(["work", "index"])

    def then_mount(folder: Path) -> None:
        opened_up(folder)
        if folder == tree and (name := next(mounts, None)):
            (tree / "inner" / name).mkdir(mode=0)

    monkeypatch.setattr(module, "_open_up", then_mount)
    remove_tree(tree)
    assert not tree.exists()
    assert next(mounts, None) is None
