"""Set up, build and run on a host like most clusters: no apt, no dpkg, an older util-linux.

The container tools are those of udocker's tarball, the base comes from a registry; both are on loopback.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from red_hat import base_in_a_registry, on_red_hat, udockers_tarball

from argosy_images import tools
from argosy_images.store.lockfile import ImageLock
from argosy_images.store.store import Store

pytestmark = [pytest.mark.container, pytest.mark.udocker, pytest.mark.timeout(600)]

ARGOSY = [sys.executable, "-m", "argosy.cli"]
RUNTIMES = ("runc", "crun")


@pytest.fixture(scope="module")
def base(
    project_store: Store, base_layer: tuple[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Serve Debian in a registry; yield its reference."""
    folder, name = tmp_path_factory.mktemp("registry"), "base/debian:12"
    with base_in_a_registry(project_store, base_layer[1] / "diff", folder, name) as address:
        yield f"{address}/{name}"


@pytest.fixture(scope="module")
def tarball(project_store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve udocker's tools, including runc; yield the URL."""
    with udockers_tarball(project_store, tmp_path_factory.mktemp("tarball")) as url:
        yield url


def run(
    folder: Path, *command: str | Path, tarball: str = "", missing: tuple[str, ...] = RUNTIMES
) -> subprocess.CompletedProcess[str]:
    """Run a command in the project `folder` on such a host."""
    variables = {**os.environ, "ARGOSY_STORE": str(folder / "store")}
    if tarball:
        variables["UDOCKER_TARBALL"] = tarball
    return subprocess.run(
        on_red_hat(folder / "world", *command, missing=missing),
        cwd=folder,
        env=variables,
        capture_output=True,
        text=True,
    )


def test_from_set_up_to_a_run(base: str, tarball: str, tmp_path: Path) -> None:
    image = tmp_path / "containers/image"
    image.mkdir(parents=True)
    (image / "Containerfile").write_text(f"FROM {base}\nRUN echo built > /built\n")
    done = run(tmp_path, "sh", "-c", "command -v apt-get dpkg runc crun; unshare --map-auto true")
    assert done.stdout == "", "the world is not what it should be"
    assert "unrecognized option" in done.stderr

    done = run(tmp_path, *ARGOSY, "setup", tarball=tarball)
    assert done.returncode == 0, done.stderr
    done = run(tmp_path, *ARGOSY, "image", "build", "image")
    assert done.returncode == 0, done.stderr
    lock = ImageLock.read(tmp_path / "resources/images/image/image.lock")
    program = [sys.executable, "-m", "argosy_images.run", "--digest", lock.digest]
    done = run(tmp_path, *program, "--log-dir", tmp_path, "--", "cat", "/built")
    assert (done.returncode, done.stdout) == (0, "built\n"), done.stderr


def test_without_a_tarball_it_is_said_what_to_ask_for(tmp_path: Path) -> None:
    done = run(tmp_path, *ARGOSY, "setup", tarball="http://127.0.0.1:9/tools.tar.gz")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        "error: runc is missing and cannot be installed from here (there is no apt-get): ask the site for "
        "the package 'runc' or 'podman', which brings it or crun, or put the program on PATH"
    )


def test_the_runtime_that_podman_brought_serves(project_store: Store, tmp_path: Path) -> None:
    tools.Tools(project_store).require("crun", print)
    done = run(
        tmp_path, *ARGOSY, "setup", tarball="http://127.0.0.1:9/tools.tar.gz", missing=("runc",)
    )
    assert done.returncode == 0, done.stderr
    assert "using /usr/bin/crun" in done.stderr
    assert (tmp_path / "store/udocker/bin" / f"crun-{tools.Tools.machine()}").is_file()


def test_debian_s_archive_is_for_hosts_with_apt(tmp_path: Path) -> None:
    image = tmp_path / "containers/image"
    image.mkdir(parents=True)
    (image / "Containerfile").write_text("FROM docker.io/library/debian:bookworm-slim\n")
    done = run(tmp_path, *ARGOSY, "image", "build", "image", missing=())
    assert done.returncode == 2
    last, hint = done.stderr.splitlines()[-2:]
    assert "this host lacks apt to make Debian from its archive" in last, last
    assert hint.startswith(
        "hint: name a registry that this host can reach; if it is out of reach here"
    )
