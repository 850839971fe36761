"""What tests share: the project's store of images and tools, which `make test` has filled."""

import os
import shutil
import signal
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from agent_job import Job, jobs

from argosy_common.disk import remove_tree
from argosy_images.builder.recipe import plan
from argosy_images.store.store import Store
from argosy_images.tools import Tools

PROJECT = Path(__file__).parents[1]
BASE = "docker.io/library/debian:bookworm-slim"


@pytest.fixture(scope="session")
def project() -> Path:
    """The checkout."""
    return PROJECT


@pytest.fixture(scope="session")
def project_store() -> Store:
    """The store of the checkout, with udocker installed."""
    store = Store.of_project(PROJECT)
    Tools(store).ensure_udocker(print)
    return store


@pytest.fixture(scope="session")
def torch_digest(
    project: Path, project_store: Store, tmp_path_factory: pytest.TempPathFactory
) -> str:
    """The digest of the frozen torch-cpu image, built if it is not."""
    from argosy_images.builder.builder import build_image

    folder = tmp_path_factory.mktemp("torch-cpu")
    image = project / "containers" / "torch-cpu"
    return build_image(project_store, image, folder / "image.lock", folder / "build.log").digest


@pytest.fixture(scope="session")
def base_layer(
    project_store: Store, torch_digest: str, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path]:
    """Key and folder of the cached base system, so that tests need not make it again and again."""
    folder = tmp_path_factory.mktemp("base")
    (folder / "Containerfile").write_text(f"FROM {BASE}\n")
    key = plan(folder).final.key
    return key, project_store.layer(key)


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Callable[..., Job]]:
    """Makes jobs of real agents in the test's folder, and clears up after them."""
    with jobs(tmp_path) as make:
        yield make


HAS_PASSED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note for `tmp_path` whether the test has passed."""
    report = yield
    if report.when == "call":
        item.stash[HAS_PASSED] = report.passed
    return report


@pytest.fixture
def tmp_path(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A folder of the test's own, which goes where the test has passed: images would fill the disk.

    pytest's way to delete it later would give files write permission, and those of a frozen image are
    second names of files of the project's store.
    """
    yield tmp_path
    if request.node.stash.get(HAS_PASSED, False):
        # What podman leaves belongs to another user.
        with suppress(OSError):
            remove_tree(tmp_path)


@pytest.fixture
def store(tmp_path: Path, project_store: Store, base_layer: tuple[str, Path]) -> Store:
    """A store of the test's own: the tools and the base system are there, no image is."""
    own = Store(tmp_path / "store with spaces")
    own.path.mkdir()
    # udocker's own tarball has a proot, one made of packages has none: tests are to see the same.
    shutil.copytree(project_store.udocker, own.udocker, ignore=shutil.ignore_patterns("proot*"))
    if project_store.tools.is_dir():
        own.tools.symlink_to(project_store.tools)
    key, layer = base_layer
    own.layer(key).parent.mkdir()
    own.layer(key).symlink_to(layer)
    return own


@pytest.fixture(autouse=True)
def no_store_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests say themselves which store they use."""
    monkeypatch.delenv("ARGOSY_STORE", raising=False)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let tests of kills be as thorough as there is time for."""
    parser.addoption(
        "--moments", type=int, default=10, help="random moments at which a test of kills kills"
    )
    parser.addoption("--failures", type=Path, help="a file to which what failed is added")


@pytest.fixture(scope="session")
def moments(pytestconfig: pytest.Config) -> int:
    """How many random moments a test of kills tries."""
    return int(pytestconfig.getoption("moments"))


WAITING = ("slurm", "faults")
COMPUTING = ("workflow", "containers", "browser")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take long, of which those that wait and those that compute take turns.

    So neither has the machine's cores at rest, and none is what everybody waits for at the end.
    """
    files = list(dict.fromkeys(item.path for item in items))
    places = {
        file: number / len(turn)
        for kind in (WAITING, COMPUTING)
        if (
            turn := [each for each in files if each.relative_to(PROJECT / "tests").parts[0] in kind]
        )
        for number, file in enumerate(turn)
    }
    items.sort(key=lambda item: places.get(item.path, 1.0))


def pytest_configure() -> None:
    """Have what tests start be interrupted, and print to a pipe that has no width.

    Started in the background of a shell, all would ignore the interrupt; pytest-xdist sets COLUMNS.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.pop("COLUMNS", None)


def unwanted(reporter: pytest.TerminalReporter) -> list[pytest.TestReport]:
    """What keeps a run from being right: in CI a skip as well, which hides that a real part is missing."""
    kinds = ["failed", "error", *(["skipped"] if os.environ.get("CI") == "true" else [])]
    return [report for kind in kinds for report in reporter.stats.get(kind, [])]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Add what failed to the file of `--failures`: the output of later runs may hide it."""
    path = terminalreporter.config.getoption("failures")
    is_worker = hasattr(terminalreporter.config, "workerinput")
    if path is not None and not is_worker:
        with path.open("a") as file:
            for report in unwanted(terminalreporter):
                file.write(f"{report.outcome}: {report.nodeid}\n{report.longreprtext[-4000:]}\n\n")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Make a run with skips fail in CI."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter and unwanted(reporter) and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
