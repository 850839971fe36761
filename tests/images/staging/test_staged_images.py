"""Images on a node are unpacked once, kept within limits, and never removed while in use."""

import os
import re
import signal
import time
from collections import Counter
from pathlib import Path

import pytest
from agent_job import require_namespaces
from packed_images import is_whole, let_go, make_packed, start_holder, told

from argosy_common.disk import remove_tree
from argosy_common.errors import ArgosyError
from argosy_images.staging.folder import NodeFolder, Wanted
from argosy_images.staging.stage import Place, staged
from argosy_images.store import strict_modes
from argosy_images.store.store import Store

ROOM = 100 << 20


@pytest.fixture
def own(tmp_path: Path) -> Store:
    return Store(tmp_path / ".argosy")


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """Return the folder of a node's disk."""
    folder = tmp_path / "node"
    folder.mkdir()
    return folder


def stage(wanted: Wanted, node: Path, room: int | None = ROOM) -> list[str]:
    """Stage the image and release it at once; return the messages."""
    said: list[str] = []
    with staged(wanted, Place(node, room), said.append) as image:
        assert is_whole(image.root, wanted.name)
    return said


def left(node: Path) -> set[str]:
    return {path.name for path in (node / f"argosy-{os.geteuid()}").iterdir()} - {"lock"}


def names(*wanted: Wanted) -> set[str]:
    found = {each.digest.replace(":", "-") for each in wanted}
    return found | {f"{name}.lock" for name in found}


def test_an_image_is_unpacked_once_and_kept(own: Store, tmp_path: Path, node: Path) -> None:
    wanted = make_packed(own, tmp_path, "one")
    said = stage(wanted, node)
    assert len(said) == 2
    assert "unpacked the image in " in said[1]
    assert stage(wanted, node) == []
    assert left(node) == names(wanted)
    [private] = node.iterdir()
    assert private.stat().st_mode & 0o777 == 0o700


@pytest.mark.slow
def test_sixty_four_at_once_unpack_once(own: Store, tmp_path: Path, node: Path) -> None:
    wanted = make_packed(own, tmp_path, "one", size=2000)
    holders = [start_holder(wanted, node, ROOM) for _ in range(64)]
    answers = [told(holder) for holder in holders]
    assert let_go(*holders) == [0] * 64
    said = Counter(line.split(" ")[0] for each in answers for line in each["said"])
    assert said["unpacked"] == said["unpacking"] == 1
    assert {each["files"] for each in answers} == {204}
    assert left(node) == names(wanted)


def test_those_that_wait_say_so(own: Store, tmp_path: Path, node: Path) -> None:
    wanted = make_packed(own, tmp_path, "one")
    with NodeFolder.below(node).alone(lambda: None):
        holder = start_holder(wanted, node, ROOM)
        time.sleep(1)
        assert holder.poll() is None
    said = told(holder)["said"]
    assert said[0].startswith("waiting: another process of ")
    assert let_go(holder) == [0]


def test_the_least_recently_used_goes_but_none_in_use(
    own: Store, tmp_path: Path, node: Path
) -> None:
    images = [make_packed(own, tmp_path, name) for name in ("one", "two", "three", "four")]
    one, two, three, four = images
    size = own_size(one, node)
    holder = start_holder(one, node, 2 * size)
    told(holder)
    stage(two, node, 2 * size)
    # The first image is older, but in use.
    said = stage(three, node, 2 * size)
    assert said[0].startswith("removed the least recently used image (")
    assert left(node) == names(one, three)
    assert let_go(holder) == [0]
    stage(one, node, 2 * size)
    stage(four, node, 2 * size)
    assert left(node) == names(one, four)


def own_size(wanted: Wanted, node: Path) -> int:
    """Return the image's size; remove the image."""
    stage(wanted, node, None)
    with staged(wanted, Place(node, ROOM), print) as image:
        size = int((image.root.parent / "size").read_text())
    NodeFolder.below(node).remove_if_unused(NodeFolder.below(node).image(wanted.digest))
    return size


def test_what_does_not_fit_is_told_with_its_sizes(own: Store, tmp_path: Path, node: Path) -> None:
    one, two = (make_packed(own, tmp_path, name) for name in ("one", "two"))
    size = own_size(one, node)
    with pytest.raises(
        ArgosyError, match=r"images.cache_size in site.yaml: it is .* KiB, but this image"
    ):
        stage(one, node, size - 1)
    holder = start_holder(one, node, ROOM)
    told(holder)
    with pytest.raises(
        ArgosyError, match=r"images and data in use on .* take .* and this image .*;"
    ):
        stage(two, node, 2 * size - 1)
    assert let_go(holder) == [0]
    assert left(node) == names(one)


def test_in_memory_it_goes_with_the_last_that_uses_it(
    own: Store, tmp_path: Path, node: Path
) -> None:
    wanted = make_packed(own, tmp_path, "one")
    first, second = (start_holder(wanted, node, None) for _ in range(2))
    told(first), told(second)
    assert let_go(first) == [0]
    assert left(node) == names(wanted)
    assert let_go(second) == [0]
    assert left(node) == set()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_in_memory_nothing_is_left_by_one_that_is_asked_to_end(
    own: Store, tmp_path: Path, node: Path, number: signal.Signals
) -> None:
    wanted = make_packed(own, tmp_path, "one")
    holder = start_holder(wanted, node, None)
    told(holder)
    holder.send_signal(number)
    holder.wait()
    assert left(node) == set()
    # The same while it is being unpacked.
    wanted = make_packed(own, tmp_path, "large", size=100_000_000)
    holder = start_holder(wanted, node, None)
    while not any(name[0] == "." or len(name) == len("sha256-") + 64 for name in left(node)):
        assert holder.poll() is None
        time.sleep(0.005)
    holder.send_signal(number)
    holder.wait()
    assert left(node) == set()


def test_in_memory_the_next_clears_away_what_the_killed_left(
    own: Store, tmp_path: Path, node: Path
) -> None:
    one, two = (make_packed(own, tmp_path, name) for name in ("one", "two"))
    holder = start_holder(one, node, None)
    told(holder)
    holder.kill()
    holder.wait()
    assert left(node) == names(one)
    stage(two, node, None)
    assert left(node) == set()


@pytest.mark.parametrize("kind", ["link", "file", "open to others"])
def test_a_folder_that_is_not_the_users_alone_is_refused(
    own: Store, tmp_path: Path, node: Path, kind: str
) -> None:
    wanted = make_packed(own, tmp_path, "one")
    private = node / f"argosy-{os.geteuid()}"
    if kind == "link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        private.symlink_to(tmp_path / "elsewhere")
    elif kind == "file":
        private.write_text("x")
    else:
        private.mkdir()
        private.chmod(0o770)
    with pytest.raises(ArgosyError, match=r"argosy-\d+: (is not a folder|on .*exists|others may)"):
        stage(wanted, node)
    assert not (tmp_path / "elsewhere").exists() or not list((tmp_path / "elsewhere").iterdir())


def test_somebody_elses_folder_is_refused(
    own: Store, tmp_path: Path, node: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = make_packed(own, tmp_path, "one")
    mine = os.geteuid()
    (node / f"argosy-{mine + 1}").mkdir(mode=0o700)
    # The user with the next id finds a folder made by this user.
    monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
    with pytest.raises(ArgosyError, match=r"belongs to another user, [\w-]+; choose another"):
        stage(wanted, node)


def test_a_place_that_others_could_replace_is_refused(
    own: Store, tmp_path: Path, node: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As sshd's StrictModes: a user who can rename a folder further up can replace it."""
    wanted = make_packed(own, tmp_path, "one")
    inner = node / "further" / "in"
    inner.mkdir(parents=True)
    node.chmod(0o777)
    refused = rf"^{node}: .*anybody may remove .*folders of .* images.folder"
    for place in (node, inner):
        with pytest.raises(ArgosyError, match=refused):
            stage(wanted, place)
    node.chmod(0o1777)
    stage(wanted, node)
    # The user's private group is harmless, another group is not.
    monkeypatch.setattr(strict_modes, "_is_private_group", lambda group: False)
    node.chmod(0o775)
    with pytest.raises(ArgosyError, match=rf"^{node}: .*its group [\w-]+ may remove"):
        stage(wanted, inner)
    assert not [*inner.iterdir()]
    node.chmod(0o3775)
    stage(wanted, inner)


def test_a_link_on_the_way_is_followed_once(own: Store, tmp_path: Path, node: Path) -> None:
    wanted = make_packed(own, tmp_path, "one")
    link = tmp_path / "link"
    link.symlink_to(node)
    with staged(wanted, Place(link, ROOM), print) as image:
        assert image.root.is_relative_to(node)


def test_a_place_that_is_not_there_is_told(own: Store, tmp_path: Path, node: Path) -> None:
    wanted = make_packed(own, tmp_path, "one")
    with pytest.raises(ArgosyError, match=r"this folder cannot be used on .* \(No such file"):
        stage(wanted, node / "none")


def test_partials_of_the_killed_are_removed(own: Store, tmp_path: Path, node: Path) -> None:
    wanted = make_packed(own, tmp_path, "one")
    folder = NodeFolder.below(node)
    for name in (".making-abc", ".gone-abc"):
        (folder.path / name / "root").mkdir(parents=True)
        (folder.path / name / "root").chmod(0o555)
    stage(wanted, node)
    assert left(node) == names(wanted)
    remove_tree(folder.path)


ON_A_SMALL_DISK = 'mount -t tmpfs -o "$0" none "$1" && shift && exec "$@"'
# The disk has enough bytes but too few inodes, so tar fails.
FEW_FILES = "size=8m,nr_inodes=60"


@pytest.mark.parametrize(
    ("disk", "room", "message"),
    [
        (
            "size=300k",
            ROOM,
            r"the image needs .* KiB, but .* has .* KiB and \d+ files free;",
        ),
        (
            "size=300k",
            None,
            "is memory: the image needs .* KiB, but .* has .* KiB free in ",
        ),
        (FEW_FILES, ROOM, "the image needs .* MiB and 0 files free; free space there, choose"),
        (FEW_FILES, None, "the image needs .* MiB and 0 files free; free space there, choose"),
    ],
)
def test_a_full_disk_is_told_with_its_sizes(
    own: Store, tmp_path: Path, disk: str, room: int | None, message: str
) -> None:
    require_namespaces()
    wanted = make_packed(own, tmp_path, "one")
    (tmp_path / "node").mkdir()
    wrapper = ["unshare", "-rm", "sh", "-c", ON_A_SMALL_DISK, disk, str(tmp_path / "node")]
    holder = start_holder(wanted, tmp_path / "node", room, *wrapper)
    error = told(holder)["error"]
    assert let_go(holder) == [2]
    assert re.search(message, error), error
