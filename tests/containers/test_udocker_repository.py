"""The real udocker lists and runs Argosy's frozen images."""

import os
import shlex
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from no_namespaces import forbidding
from real_udocker import UDOCKER

from argosy_images import tools
from argosy_images.builder.builder import build_image
from argosy_images.gc.prune import prune
from argosy_images.store.lockfile import ImageLock
from argosy_images.store.store import Store
from argosy_images.udocker_repository.registering import UdockerRepository, container_id

pytestmark = [pytest.mark.container, pytest.mark.udocker]

TEXT = """FROM docker.io/library/debian:bookworm-slim
ENV TOLD=yes
RUN echo content > /file && mkdir /folder
WORKDIR /folder
CMD ["cat", "/file"]
"""


class Udocker:
    """The user's udocker, with UDOCKER_DIR as its only setting."""

    def __init__(self, store: Store, home: Path) -> None:
        self.repository = store.udocker_repository
        self.variables = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "UDOCKER_DIR": str(self.repository),
        }

    def run(
        self, *arguments: str, wrapped: bool = False, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        command = [*UDOCKER, "--quiet", *arguments]
        return subprocess.run(
            forbidding(*command) if wrapped else command,
            env={**self.variables, **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
        )

    def __call__(self, *arguments: str, **variables: str) -> str:
        """Run a command that must succeed; return its output."""
        done = self.run(*arguments, **variables)
        assert done.returncode == 0, (arguments, done)
        return done.stdout

    def refuses(self, *arguments: str) -> str:
        done = self.run(*arguments)
        assert done.returncode != 0, (arguments, done)
        return done.stdout + done.stderr


@pytest.fixture
def image(store: Store, project_store: Store, tmp_path: Path) -> ImageLock:
    tools.Tools(project_store).fetch_proot(print)
    folder = tmp_path / "containers" / "tool"
    folder.mkdir(parents=True)
    (folder / "Containerfile").write_text(TEXT)
    return build(store, tmp_path)


def build(store: Store, project: Path) -> ImageLock:
    lock = project / "resources/images/tool/image.lock"
    return build_image(store, project / "containers/tool", lock, project / "log")


@pytest.fixture
def udocker(store: Store, tmp_path: Path) -> Udocker:
    return Udocker(store, tmp_path)


def content(store: Store, lock: ImageLock) -> dict[str, tuple[int, int, int]]:
    """Return mode, size and time of each file of the frozen tree."""
    found = {}
    for path in store.root(lock.digest).rglob("*"):
        status = path.lstat()
        found[str(path)] = (status.st_mode, status.st_size, status.st_mtime_ns)
    return found


def test_a_build_says_where_udocker_finds_the_image(
    store: Store, image: ImageLock, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build(store, tmp_path)
    said = capsys.readouterr().err
    assert (
        f"udocker shows it as tool: UDOCKER_DIR={shlex.quote(str(store.udocker_repository))}"
        in said
    )


def test_it_is_listed_described_and_verified(image: ImageLock, udocker: Udocker) -> None:
    assert "tool:latest" in udocker("images")
    assert image.digest in udocker("images", "-l")
    line = udocker("ps").splitlines()[1]
    assert line.split() == [container_id(image.digest), "P", "R", "['tool']", "tool:latest"]
    for name in ("tool", "tool:latest"):
        assert '"TOLD=yes"' in udocker("inspect", name)
    udocker("verify", "tool:latest")


@pytest.mark.parametrize("namespaces", [True, False])
def test_it_runs_and_stays_as_it_is(
    store: Store, image: ImageLock, udocker: Udocker, tmp_path: Path, namespaces: bool
) -> None:
    before = content(store, image)
    (tmp_path / "data").mkdir()
    program = (
        "echo $TOLD $GIVEN $PWD; echo new > /file; touch /folder/x; touch /tmp/x /data/made; exit 7"
    )
    volume = f"--volume={tmp_path / 'data'}:/data"
    done = udocker.run(
        *("run", volume, "--env=GIVEN=too", "tool", "sh", "-c", program), wrapped=not namespaces
    )
    assert done.returncode == 7, done
    assert done.stdout == "yes too /folder\n"
    assert (tmp_path / "data/made").is_file()
    # The image's own CMD, in udocker's other proot mode.
    assert udocker("run", "tool", PROOT_NO_SECCOMP="1") == "content\n"
    # A variable cannot select the modes that run the host's programs.
    assert udocker("run", "tool", UDOCKER_DEFAULT_EXECUTION_MODE="R1") == "content\n"
    done = udocker.run(
        *("run", f"--volume={tmp_path}:/elsewhere", "tool", "true"), wrapped=not namespaces
    )
    assert done.returncode == 125
    assert "argosy: /elsewhere: the frozen image has no such mount point" in done.stderr
    assert content(store, image) == before


@pytest.mark.thorough
@pytest.mark.parametrize("namespaces", [True, False])
@pytest.mark.parametrize("above", [0, 1])
def test_the_store_is_read_only_below_a_volume(
    store: Store, image: ImageLock, udocker: Udocker, above: int, namespaces: bool
) -> None:
    before = content(store, image)
    shown = [store.path, store.path.parent][above]
    file = store.root(image.digest).relative_to(shown) / "file"
    program = f"cd /mnt; cat '{file}'; echo new > '{file}'"
    done = udocker.run(
        *("run", f"--volume={shown}:/mnt", "tool", "sh", "-c", program), wrapped=not namespaces
    )
    assert done.returncode != 0
    assert done.stdout == "content\n"
    assert content(store, image) == before


@pytest.mark.thorough
def test_sixteen_run_at_once(image: ImageLock, udocker: Udocker) -> None:
    with ThreadPoolExecutor(16) as pool:
        every = pool.map(lambda number: udocker("run", "tool", "echo", str(number)), range(16))
        assert [*every] == [f"{number}\n" for number in range(16)]


def test_what_would_change_or_remove_it_is_refused(
    store: Store, image: ImageLock, udocker: Udocker
) -> None:
    before = content(store, image)
    for command in (
        "rm",
        "rm -f",
        *(f"setup --execmode={mode}" for mode in ("R1", "F1", "F3")),
    ):
        assert "protected" in udocker.refuses(*command.split(), "tool")
    assert "protected" in udocker.refuses("rmi", "tool:latest")
    # Not even after the user unprotects it.
    udocker("unprotect", "tool")
    for mode in ("F1", "F2", "F3", "R1"):
        udocker.run("setup", f"--execmode={mode}", "tool")
        udocker.run("run", "tool", "sh", "-c", "echo new > /file")
    udocker("setup", "--force", "--execmode=P1", "tool")
    assert udocker("run", "tool") == "content\n"
    assert content(store, image) == before


def test_a_udocker_that_wants_other_programs_installs_none(
    image: ImageLock, udocker: Udocker, tmp_path: Path
) -> None:
    """Another release of udocker would replace older tools by itself."""
    settings = tmp_path / "settings"
    settings.write_text("[DEFAULT]\ntarball_release = 99.0.0\n")
    (tmp_path / "udocker_dir/bin").mkdir(parents=True)
    (tmp_path / "udocker_dir/lib").mkdir()
    (tmp_path / "udocker_dir/doc").mkdir()
    for name in ("proot-x86_64", "proot-x86_64-4_8_0"):
        (tmp_path / "udocker_dir/bin" / name).write_text("#!/bin/sh\necho other\n")
    (tmp_path / "udocker_dir/lib/VERSION").write_text("99.0.0\n")
    tarball = tmp_path / "tools.tar.gz"
    subprocess.run(["tar", "-C", tmp_path, "-czf", tarball, "udocker_dir"], check=True)
    said = udocker(f"--config={settings}", "run", "tool", UDOCKER_TARBALL=str(tarball))
    assert said == "content\n"


def test_names_copies_and_exports(
    store: Store, image: ImageLock, udocker: Udocker, tmp_path: Path
) -> None:
    udocker("name", "tool", "other")
    assert udocker("run", "other") == "content\n"
    udocker("rmname", "other")
    clone = udocker("clone", "tool").strip()
    done = udocker.run("run", clone, "sh", "-c", "echo new > /file")
    assert done.returncode != 0 and "cannot create /file" in done.stdout + done.stderr
    udocker("export", "-o", str(tmp_path / "tool.tar"), "tool")
    listed = subprocess.run(["tar", "-tf", tmp_path / "tool.tar"], capture_output=True, text=True)
    assert "./file" in listed.stdout.splitlines()
    # The user's own copy may be changed.
    udocker("import", "--tocontainer", "--name=own", str(tmp_path / "tool.tar"))
    assert udocker("run", "own", "sh", "-c", "echo new > /file; cat /file") == "new\n"
    assert udocker("run", "own", "cat", "/file") == "new\n"
    assert udocker("run", "tool") == "content\n"


def test_what_udocker_would_have_to_unpack_fails(image: ImageLock, udocker: Udocker) -> None:
    """udocker needs layers as tar files; docs/images-reference.md has the workaround."""
    for command in ("create", "run"):
        done = udocker.run(command, "tool:latest")
        assert "Error: creating container" in done.stdout + done.stderr, done


def test_what_is_removed_on_one_side_is_gone_on_the_other(
    store: Store, image: ImageLock, udocker: Udocker, tmp_path: Path
) -> None:
    udocker("unprotect", "tool")
    udocker("rm", "tool")
    assert "tool" not in udocker("ps")
    assert store.root(image.digest).is_dir()
    build(store, tmp_path)
    assert "['tool']" in udocker("ps")
    (tmp_path / "resources/images/tool/image.lock").unlink()
    prune(store, tmp_path, print)
    assert not store.root(image.digest).exists()
    assert "tool" not in udocker("ps") + udocker("images")
    assert [*(store.udocker_repository / "layers").iterdir()] == []


def test_the_users_own_of_the_same_name_stay(
    store: Store, image: ImageLock, udocker: Udocker, tmp_path: Path
) -> None:
    udocker("unprotect", "tool")
    udocker("unprotect", "tool:latest")
    udocker("rm", "tool")
    udocker("rmi", "tool:latest")
    own = tmp_path / "own.tar"
    (tmp_path / "own").mkdir()
    (tmp_path / "own/mine").write_text("mine\n")
    subprocess.run(["tar", "-C", tmp_path / "own", "-cf", own, "."], check=True)
    udocker("import", str(own), "tool:latest")
    udocker("import", "--tocontainer", "--name=tool", str(own))
    said = UdockerRepository(store).show(image)
    assert container_id(image.digest) in said
    assert (udocker.repository / "containers/tool/ROOT/mine").read_text() == "mine\n"
    assert "mine" not in udocker("run", container_id(image.digest), "ls", "/")
    assert image.digest not in udocker("images", "-l")


def test_a_newer_image_takes_the_name_over(
    store: Store, image: ImageLock, udocker: Udocker, tmp_path: Path
) -> None:
    (tmp_path / "containers/tool/Containerfile").write_text(TEXT.replace("content", "newer"))
    newer = build(store, tmp_path)
    assert udocker("run", "tool") == "newer\n"
    assert udocker("run", container_id(image.digest)) == "content\n"
    assert newer.digest in udocker("images", "-l")
    assert [path.name for path in (udocker.repository / "layers").iterdir()] == [newer.digest]


def test_a_python_that_is_gone_is_named(
    image: ImageLock, udocker: Udocker, monkeypatch: pytest.MonkeyPatch, store: Store
) -> None:
    monkeypatch.setattr("sys.executable", "/nowhere/a b/python")
    UdockerRepository(store).show(image)
    monkeypatch.undo()
    done = udocker.run("run", "tool")
    assert done.returncode == 125
    assert "argosy: /nowhere/a b/python is gone: build an image of this store anew" in done.stderr
