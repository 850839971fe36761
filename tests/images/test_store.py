"""The store of a project: path, trust, locks and workspaces."""

import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from argosy_common import disk
from argosy_common.disk import remove_tree
from argosy_common.errors import ArgosyError
from argosy_images.store import store as module
from argosy_images.store import strict_modes
from argosy_images.store.store import Store

HOLD = """
import sys, time
from pathlib import Path
from argosy_common.disk import remove_tree
from argosy_images.store.store import Store
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


@pytest.fixture
def of_a_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the test user's group other members."""
    monkeypatch.setattr(strict_modes, "_is_private_group", lambda group: False)


@pytest.mark.usefixtures("of_a_group")
def test_a_store_that_others_may_write_to_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / ".argosy"
    folder.mkdir()
    for mode in (0o777, 0o1777, 0o775, 0o2775):
        folder.chmod(mode)
        with pytest.raises(ArgosyError, match=rf"^{folder}: .*chmod go-w.* ARGOSY_STORE"):
            Store.of_project(tmp_path)
    # Others may read the store.
    folder.chmod(0o755)
    assert Store.of_project(tmp_path).path == folder


def test_a_group_may_be_this_users_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".argosy").mkdir(mode=0o775)
    (tmp_path / ".argosy").chmod(0o775)
    monkeypatch.setattr(strict_modes, "_is_private_group", lambda group: True)
    assert Store.of_project(tmp_path).path == tmp_path / ".argosy"


@pytest.mark.usefixtures("of_a_group")
@pytest.mark.parametrize("is_there", [True, False])
@pytest.mark.parametrize("way", ["team/store", "link", "outer/link"])
def test_nobody_else_may_replace_a_folder_on_the_way_to_a_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str, *, is_there: bool
) -> None:
    team = tmp_path / "team"
    team.mkdir()
    (tmp_path / "link").symlink_to("team/store")
    (tmp_path / "outer").mkdir()
    (tmp_path / "outer/link").symlink_to("../link")
    if is_there:
        (team / "store").mkdir(mode=0o700)
    monkeypatch.setenv("ARGOSY_STORE", str(tmp_path / way))
    for mode in (0o2770, 0o777):
        team.chmod(mode)
        with pytest.raises(ArgosyError, match=rf"^{team}: .* may remove .*ARGOSY_TRUSTED"):
            Store.of_project(tmp_path)
    # A sticky folder, and a folder that only the user can write to.
    for mode in (0o1777, 0o3770, 0o750):
        team.chmod(mode)
        assert Store.of_project(tmp_path).path == team / "store"


@pytest.mark.usefixtures("of_a_group")
def test_a_group_that_the_user_trusts_may_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import grp

    group = grp.getgrgid(tmp_path.stat().st_gid).gr_name
    tmp_path.chmod(0o2770)
    monkeypatch.setenv("ARGOSY_TRUSTED", "others")
    with pytest.raises(ArgosyError, match=f"its group {group} may"):
        Store.of_project(tmp_path)
    monkeypatch.setenv("ARGOSY_TRUSTED", f"others,{group}")
    assert Store.of_project(tmp_path).path == tmp_path / ".argosy"
    # A group cannot stand for all users.
    tmp_path.chmod(0o2777)
    with pytest.raises(ArgosyError, match="anybody"):
        Store.of_project(tmp_path)


def test_an_access_list_counts_as_what_it_grants(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strict_modes, "_is_private_group", lambda group: group == os.getgid())
    team, someone = tmp_path / "team", 59_999
    (team / "store").mkdir(parents=True)
    monkeypatch.setenv("ARGOSY_STORE", str(team / "store"))
    for kind, number, said in [(2, someone, "the user 59999"), (8, someone, "the group 59999")]:
        grant(team, (kind, 7, number), mask=7)
        for trusted in ("", "others"):
            monkeypatch.setenv("ARGOSY_TRUSTED", trusted)
            with pytest.raises(ArgosyError, match=rf"^{team}: {said} may"):
                Store.of_project(tmp_path)
        monkeypatch.setenv("ARGOSY_TRUSTED", str(someone))
        assert Store.of_project(tmp_path).path == team / "store"
        monkeypatch.delenv("ARGOSY_TRUSTED")
        # Read permission, entries that the mask disables, and the user's own entry are harmless.
        for entry, mask in [
            ((kind, 5, number), 7),
            ((kind, 7, number), 5),
            ((kind, 7, os.getuid() if kind == 2 else os.getgid()), 7),
        ]:
            grant(team, entry, mask=mask)
            assert Store.of_project(tmp_path).path == team / "store"


def grant(folder: Path, entry: tuple[int, int, int], *, mask: int) -> None:
    """Set a folder's access control list, like setfacl: owner, entry, group, mask, others."""
    entries = [(1, 7, -1 & 0xFFFFFFFF), entry, (4, 5, -1 & 0xFFFFFFFF), (16, mask, -1 & 0xFFFFFFFF)]
    entries = sorted([*entries, (32, 5, -1 & 0xFFFFFFFF)])
    packed = b"".join(struct.pack("<HHI", *each) for each in entries)
    try:
        os.setxattr(folder, "system.posix_acl_access", struct.pack("<I", 2) + packed)
    except OSError:
        pytest.skip("this file system has no access lists")


def test_a_store_of_somebody_else_may_not_lie_where_anybody_could_have_made_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "place/store"
    store.mkdir(parents=True)
    me = os.geteuid()
    # As another user, who owns nothing of it.
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    monkeypatch.setenv("ARGOSY_STORE", str(store))
    store.parent.chmod(0o1777)
    with pytest.raises(ArgosyError, match=rf"^{store.parent}: anybody|^/tmp: anybody"):
        Store.of_project(tmp_path)


def test_a_loop_of_links_is_no_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "loop").symlink_to("loop")
    monkeypatch.setenv("ARGOSY_STORE", str(tmp_path / "loop"))
    with pytest.raises(ArgosyError, match=f"^{tmp_path}/loop: these links are broken"):
        Store.of_project(tmp_path)


@pytest.mark.parametrize("name", ["file/store", "closed/store", "none/store/", "a/../store"])
def test_a_store_that_cannot_be_there_is_told_by_who_needs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "a").mkdir()
    (tmp_path / "closed").mkdir(mode=0)
    monkeypatch.setenv("ARGOSY_STORE", f"{tmp_path}/{name}")
    assert Store.of_project(tmp_path).path == Path(os.path.realpath(tmp_path / name))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ARGOSY_STORE", name)
    assert Store.of_project(tmp_path).path == Path(os.path.realpath(tmp_path / name))
    (tmp_path / "closed").chmod(0o700)


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
    """Standard error; the first message ends the other process's wait."""

    def __init__(self, other: "subprocess.Popen[str]") -> None:
        self.other = other
        self.words: list[str] = []

    def write(self, text: str) -> None:
        self.words.append(text)
        assert self.other.stdin
        self.other.stdin.close()

    def flush(self) -> None:
        """Do nothing."""


def test_a_tree_goes_that_a_killed_process_still_adds_closed_folders_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Create a folder like a killed build's overlay mount, once all others have been opened."""
    tree = tmp_path / "tree"
    (tree / "inner").mkdir(parents=True)
    opened_up = disk._open_up
    mounts = iter(["work", "index"])

    def then_mount(folder: Path) -> None:
        opened_up(folder)
        if folder == tree and (name := next(mounts, None)):
            (tree / "inner" / name).mkdir(mode=0)

    monkeypatch.setattr(disk, "_open_up", then_mount)
    remove_tree(tree)
    assert not tree.exists()
    assert next(mounts, None) is None
