"""Pruning: removed entries, their order, and entries that always stay."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from filelock import FileLock
from frozen_images import last_used, make_image, make_layer, unlock

from argosy.cli.images import image_prune
from argosy_common.errors import ArgosyError
from argosy_common.units import mebibytes, seconds
from argosy_images.archive.packing import pack_image
from argosy_images.builder.history import History, RecordedChain, RecordedStep
from argosy_images.gc.prune import prune
from argosy_images.store import uses
from argosy_images.store.lockfile import ImageLock
from argosy_images.store.store import Store

BIG = "x" * 1_500_000


class Project:
    """Two unlocked images on one base: `old` was used 40 days ago, `new` just now."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = Store(folder / ".argosy")
        self.said: list[str] = []
        for key in ("base", "old", "new", "stage"):
            make_layer(self.store, key, {key: BIG + key})
        self.old = self.image("old", 40)
        self.new = self.image("new", 0)
        last_used(self.store.layer("stage") / "layer.json", 10, time.time())

    def image(self, name: str, days: float) -> ImageLock:
        lock = make_image(self.store, self.folder, name, ["base", name])
        unlock(self.folder, name)
        for path in (self.store.layer(name) / "layer.json", self.store.description(lock.digest)):
            last_used(path, days, time.time())
        return lock

    def lock(self, name: str) -> None:
        lock = {"old": self.old, "new": self.new}[name]
        text = self.store.description(lock.digest).read_text()
        (self.folder / "resources" / "images" / name / "image.lock").write_text(text)

    def prune(self, age: str | None = None, size: str | None = None, *, dry: bool = False) -> None:
        self.said = []
        age_s = None if age is None else seconds(age)
        size_b = None if size is None else mebibytes(size) << 20
        prune(self.store, self.folder, self.said.append, age=age_s, size=size_b, dry_run=dry)

    @property
    def left(self) -> set[str]:
        layers = {path.name for path in self.store.layer("").iterdir()}
        roots = {"old": self.old.digest, "new": self.new.digest}
        return layers | {f"/{name}" for name, d in roots.items() if self.store.root(d).exists()}


EVERYTHING = {"base", "old", "new", "stage", "/old", "/new"}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def record(project: Project, image: str, keys: list[str]) -> None:
    """Record a last build of these steps."""
    steps = tuple(RecordedStep(instruction=key, key=key, inputs={}) for key in keys)
    path = project.store.history(image)
    path.parent.mkdir()
    path.write_text(History(chains=(RecordedChain(name="0", steps=steps),)).model_dump_json())


def used(folder: Path) -> int:
    found = subprocess.run(["du", "-s", "-B1", folder], capture_output=True, text=True, check=True)
    return int(found.stdout.split()[0])


def freed(line: str) -> float:
    number, unit = line.partition("freed ")[2].partition(";")[0].split()
    return float(number) * 1024 ** ("B", "KiB", "MiB").index(unit)


def test_what_an_image_lock_names_stays_with_its_layers(project: Project) -> None:
    project.lock("new")
    before = used(project.store.path)
    project.prune()
    assert project.left == {"base", "new", "/new"}
    assert [line.partition(" sha256")[0] for line in project.said[:1]] == ["removing image old"]
    # The message agrees with the disk.
    assert freed(project.said[-1]) == pytest.approx(before - used(project.store.path), rel=0.03)
    assert not any((project.store.path / "trash").iterdir())


def test_a_packed_image_stays_and_goes_with_its_image(project: Project) -> None:
    packed = [pack_image(project.store, lock, print) for lock in (project.old, project.new)]
    project.lock("new")
    before = used(project.store.path)
    project.prune()
    assert [path.exists() for path in packed] == [False, True]
    assert freed(project.said[-1]) == pytest.approx(before - used(project.store.path), rel=0.03)


def test_what_is_left_of_packing_goes(project: Project) -> None:
    whole = pack_image(project.store, project.new, print)
    partial = whole.with_name(f".{whole.name}.abc")
    of_no_image = whole.with_name("sha256-gone.tar.zst")
    for path in (partial, of_no_image):
        path.write_text("x")
    project.lock("new")
    project.prune()
    assert list(whole.parent.iterdir()) == [whole]


def test_without_an_image_lock_all_goes(project: Project) -> None:
    project.prune()
    assert project.left == set()
    assert project.said[-1].endswith("left: 0 images, 0 cached steps")


def test_a_dry_run_tells_the_same_and_removes_nothing(project: Project) -> None:
    project.lock("new")
    project.prune(dry=True)
    would = project.said
    assert project.left == EVERYTHING
    project.prune()
    assert [line.replace("would remove", "removing") for line in would[:-1]] == project.said[:-1]
    assert would[-1].replace("would free", "freed") == project.said[-1]


def test_by_age_what_was_used_since_stays_and_what_is_below_it(project: Project) -> None:
    # The base is as old as the old image, but the new image needs it.
    last_used(project.store.layer("base") / "layer.json", 40, time.time())
    project.prune(age="30d")
    assert project.left == {"base", "new", "/new", "stage"}
    project.prune(age="5d")
    assert project.left == {"base", "new", "/new"}


def test_by_size_the_least_recently_used_goes_first(project: Project) -> None:
    project.prune(size="7M")
    assert project.left == EVERYTHING
    # The old image and its layer are hard links: only removing both frees space.
    project.prune(size="5M")
    assert project.left == {"base", "new", "/new", "stage"}
    project.prune(size="4M")
    assert project.left == {"base", "new", "/new"}
    project.prune(size="1M")
    assert project.left == set()


def test_age_and_size_together_remove_what_either_does(project: Project) -> None:
    project.prune(age="30d", size="4M")
    assert project.left == {"base", "new", "/new"}


def test_a_layer_goes_before_those_that_it_stands_on(project: Project) -> None:
    record(project, "image", ["base", "stage", "old"])
    now = time.time()
    # A killed build used the upper steps last.
    for key, days in {"base": 9, "stage": 8, "old": 7, "new": 8}.items():
        last_used(project.store.layer(key) / "layer.json", days, now)
    for lock in (project.old, project.new):
        last_used(project.store.description(lock.digest), 50, now)
    project.prune(dry=True)
    order = [line.split()[5] for line in project.said if "would remove step" in line]
    assert order == ["new", "old", "stage", "base"]


def test_the_steps_of_the_last_build_of_a_locked_image_stay(project: Project) -> None:
    project.lock("new")
    record(project, "new", ["stage"])
    project.prune()
    assert project.left == {"base", "new", "/new", "stage"}


def test_while_a_build_is_under_way_nothing_goes(project: Project) -> None:
    locks = project.store.path / "locks"
    locks.mkdir()
    holding = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys, time, filelock\n"
            "with filelock.FileLock(sys.argv[1]): print('held', flush=True); time.sleep(60)",
            locks / "image-other.lock",
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holding.stdout
    try:
        assert holding.stdout.readline() == "held\n"
        with pytest.raises(ArgosyError, match="a build of other is running; try again"):
            project.prune()
    finally:
        holding.kill()
        holding.wait()
    assert project.left == EVERYTHING
    project.prune()
    assert project.left == set()


def test_a_build_waits_until_a_prune_has_taken_things_away(project: Project) -> None:
    begun = project.folder / "begun"
    (project.store.path / "locks").mkdir()
    with FileLock(project.store.path / "locks" / "prune.lock"):
        program = (
            "import sys\nfrom pathlib import Path\nfrom argosy_images.store.store import Store\n"
            "with Store(Path(sys.argv[1])).changing('x'): Path(sys.argv[2]).touch()"
        )
        build = subprocess.Popen([sys.executable, "-c", program, project.store.path, begun])
        deadline = time.monotonic() + 30
        while not (project.store.path / "locks" / "image-x.lock").exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        time.sleep(0.2)
        assert not begun.exists()
    assert build.wait(timeout=30) == 0
    assert begun.exists()


def test_what_dead_builds_left_goes_too(project: Project) -> None:
    store = project.store
    for place in (
        store.path / "builds/dead/x1/trees",
        store.layer(".making-abc") / "diff",
        store.path / "trash" / "1234",
        store.root("") / ".gone-5678",
    ):
        place.mkdir(parents=True)
        (place / "file").write_text(BIG)
        place.chmod(0o555)
    project.lock("new")
    project.prune(age="1000d", dry=True)
    assert freed(project.said[-1].replace("would free", "freed")) > 4 * len(BIG)
    project.prune(age="1000d")
    assert freed(project.said[-1]) > 4 * len(BIG)
    assert not any((store.path / "builds").iterdir())
    assert not any((store.path / "trash").iterdir())
    assert project.left == EVERYTHING


def test_a_removal_that_is_cut_off_leaves_whole_things(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = []

    def stop_at(number: int) -> None:
        """Interrupt at the renaming of this number."""
        rename = Path.rename

        def counted(self: Path, target: Path) -> Path:
            steps.append(target)
            if len(steps) == number:
                raise KeyboardInterrupt
            return rename(self, target)

        monkeypatch.setattr(Path, "rename", counted)

    for number in range(1, 30):
        steps.clear()
        with monkeypatch.context():
            stop_at(number)
            try:
                project.prune()
            except KeyboardInterrupt:
                monkeypatch.undo()
            else:
                monkeypatch.undo()
                break
        for key in project.left & {"base", "old", "new", "stage"}:
            assert (project.store.layer(key) / "layer.json").is_file()
            assert (project.store.layer(key) / "diff" / key).is_file()
        for name, lock in {"old": project.old, "new": project.new}.items():
            root = project.store.root(lock.digest)
            if root.exists():
                assert (root / name).is_file()
                assert root.stat().st_mode & 0o777 == 0o555
    assert project.left == set()
    project.prune()
    assert not any((project.store.path / "trash").iterdir())


def test_an_unreadable_image_lock_stops_it(project: Project) -> None:
    lock = project.folder / "resources" / "images" / "new" / "image.lock"
    lock.write_text(json.dumps({"schema_version": 1}))
    with pytest.raises(ArgosyError, match="remove the file and build the image again"):
        project.prune()
    assert project.left == EVERYTHING


def test_a_cached_step_that_is_a_link_goes_without_what_it_leads_to(project: Project) -> None:
    elsewhere = project.folder / "elsewhere"
    project.store.layer("stage").rename(elsewhere)
    project.store.layer("stage").symlink_to(elsewhere)
    project.prune()
    assert project.left == set()
    assert (elsewhere / "layer.json").is_file()
    assert not os.path.lexists(project.store.layer("stage"))


@pytest.mark.parametrize(("age", "size"), [("a month", None), (None, "20 GB"), ("1.5d", None)])
def test_options_written_otherwise_are_named(age: str | None, size: str | None) -> None:
    with pytest.raises(ArgosyError, match=f"--(older-than|keep) {age or size}: write a"):
        image_prune(age, size)


def test_downloads_of_pulls_that_were_not_finished_go_as_well(project: Project) -> None:
    blobs = project.store.blobs
    blobs.mkdir(parents=True)
    (blobs / "ab12").write_bytes(bytes(1 << 20))
    (blobs / "cd34.part").write_bytes(bytes(1 << 20))
    last_used(blobs / "ab12", 5, time.time())
    project.lock("old")
    project.lock("new")
    project.prune(age="6d")
    assert {path.name for path in blobs.iterdir()} == {"ab12", "cd34.part"}
    project.prune(age="3d", dry=True)
    assert "would remove download ab12 of a pull that was not finished" in project.said
    assert "would free" in project.said[-1]
    project.prune(age="3d")
    assert [path.name for path in blobs.iterdir()] == ["cd34.part"]
    project.prune()
    assert list(blobs.iterdir()) == []
    assert project.left >= {"base", "old", "new", "/old", "/new"}


DAY = 86400


def test_an_image_that_a_run_of_another_project_uses_stays_and_it_is_said_who(
    project: Project,
) -> None:
    project.store.uses.note(project.old.digest, "/elsewhere/results/x/run", 3600)
    project.prune()
    assert "/old" in project.left
    assert "/new" not in project.left
    [kept] = [line for line in project.said if line.startswith("keeping image old")]
    assert "/elsewhere/results/x/run uses it since" in kept
    [note] = (project.store.path / "uses").iterdir()
    assert str(note) in kept


@pytest.mark.parametrize(("age", "size"), [("1d", None), (None, "1M")])
def test_no_option_takes_an_image_from_under_a_run(
    project: Project, age: str | None, size: str | None
) -> None:
    project.store.uses.note(project.old.digest, "a run", 3600)
    project.prune(age, size, dry=True)
    assert not [line for line in project.said if line.startswith("would remove image old")]
    project.prune(age, size)
    assert "/old" in project.left


def test_an_image_goes_when_its_run_has_ended(project: Project) -> None:
    project.store.uses.note(project.old.digest, "a run", 3600)
    project.store.uses.end(project.old.digest, "a run")
    project.prune()
    assert project.left == set()


def test_who_was_killed_keeps_nothing_for_ever(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.store.uses.note(project.old.digest, "a run", uses.JOB_S)
    at = time.time()
    monkeypatch.setattr(uses.time, "time", lambda: at + uses.JOB_S - DAY)
    project.prune()
    assert "/old" in project.left
    monkeypatch.setattr(uses.time, "time", lambda: at + uses.JOB_S + 1)
    project.prune()
    assert project.left == set()
    assert not [*(project.store.path / "uses").iterdir()]


def test_image_locks_of_all_projects_that_share_the_store_count(
    project: Project, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    place = other / "resources/images/old/image.lock"
    place.parent.mkdir(parents=True)
    place.write_text(project.store.description(project.old.digest).read_text())
    project.store.uses.note_project(other)
    project.prune()
    assert project.left == {"base", "old", "/old"}
    shutil.rmtree(other)
    project.prune()
    assert project.left == set()
    assert not [*(project.store.path / "projects").iterdir()]


def test_a_project_of_another_host_that_cannot_be_seen_is_named(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as there:
        there.setattr(uses.socket, "gethostname", lambda: "login7")
        project.store.uses.note_project(tmp_path / "not here")
    project.prune()
    assert f"{tmp_path}/not here on login7 uses the store but is not visible here" in "".join(
        project.said
    )
    assert [*(project.store.path / "projects").iterdir()]


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"digest": 1}', '{"digest": "x", "since": "y"}'])
def test_damaged_notes_are_no_reason_to_fail(project: Project, text: str) -> None:
    for name in ("uses", "projects"):
        (project.store.path / name).mkdir()
        (project.store.path / name / "0a.json").write_text(text)
    project.prune()
    assert project.left == set()


def test_a_container_takes_its_note_back_and_not_that_of_its_job(project: Project) -> None:
    digest = project.old.digest
    with project.store.uses.during(digest, "a run"):
        assert project.store.uses.current()
    assert not project.store.uses.current()
    project.store.uses.note(digest, "a run", 3600)
    with project.store.uses.during(digest, "a run"):
        pass
    assert project.store.uses.current()
