"""Container tools come from a server or from packages, or an error says how to get them."""

import gzip
import os
import shutil
import subprocess
import sys
import tarfile
import threading
from collections.abc import Sequence
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from udocker.config import Config

from argosy_images import tools
from argosy_images.store.store import Store

pytestmark = [pytest.mark.container, pytest.mark.udocker]


@pytest.mark.parametrize("place", ["named", "published", "forged"])
def test_udockers_own_tarball_is_taken_where_it_can_be_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, project_store: Store, place: str
) -> None:
    """The file of UDOCKER_TARBALL is not verified; other files are compared with the published digest."""
    (tmp_path / "VERSION").write_text("1.2.11\n")
    for name in ("tools", "forged"):
        (tmp_path / "runc").write_text(f"#!/bin/sh\n: {name}\n")
        with tarfile.open(tmp_path / f"{name}.tar.gz", "w:gz") as archive:
            archive.add(tmp_path / "VERSION", "udocker_dir/lib/VERSION")
            archive.add(tmp_path / "runc", f"udocker_dir/bin/runc-of-{name}")
    monkeypatch.setattr(tools, "TARBALL_BLOB", tools._blob_of(tmp_path / "tools.tar.gz"))
    runtime = tools.Tools(project_store).require_runtime(print)
    monkeypatch.setenv("PATH", f"{runtime.parent}:{os.environ['PATH']}")
    handler = partial(SimpleHTTPRequestHandler, directory=tmp_path)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        names = [f"http://127.0.0.1:{server.server_port}/{n}.tar.gz" for n in ("forged", "tools")]
        if place == "named":
            monkeypatch.setenv("UDOCKER_TARBALL", names[0])
        else:
            monkeypatch.delenv("UDOCKER_TARBALL", raising=False)
            given = names[0] if place == "forged" else " ".join(names)
            monkeypatch.setitem(Config.conf, "tarball", given)
        said: list[str] = []
        store = Store(tmp_path / "store")
        tools.Tools(store).ensure_udocker(said.append)
        server.shutdown()
    found = {path.name for path in (store.udocker / "bin").glob("runc-of-*")}
    assert found == {"named": {"runc-of-forged"}, "published": {"runc-of-tools"}}.get(place, set())
    # Earlier messages may report the unpacking of curl.
    assert ("is not the file that udocker's authors published" in said[-1]) is (place == "forged")


@pytest.mark.parametrize("kind", ["newer", "damaged", "other"])
def test_without_a_usable_tarball_the_hosts_runtime_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, project_store: Store, kind: str
) -> None:
    """Also where HOME and TMPDIR are gone."""
    runtime = tools.Tools(project_store).require_runtime(print)
    monkeypatch.setenv("PATH", f"{runtime.parent}:{os.environ['PATH']}")
    for name in ("HOME", "TMPDIR"):
        monkeypatch.setenv(name, "/proc/gone")
    tarball, store = tmp_path / "given.tar.gz", Store(tmp_path / "store")
    if kind == "newer":
        monkeypatch.delenv("UDOCKER_TARBALL", raising=False)
        monkeypatch.setitem(Config.conf, "tarball_release", "1.2.99")
        why = "udocker needs release 1.2.99 of its tools, but only 1.2.11 can be verified"
    elif kind == "damaged":
        monkeypatch.setenv("UDOCKER_TARBALL", str(tarball))
        tarball.write_bytes(gzip.compress(os.urandom(5000))[:-100])
        why = f"{tarball}: "
    else:
        monkeypatch.setenv("UDOCKER_TARBALL", str(tarball))
        with tarfile.open(tarball, "w:gz") as archive:
            archive.add(__file__, "program.py")
        why = f"{tarball}: has no udocker_dir/lib/VERSION"
    said: list[str] = []
    tools.Tools(store).ensure_udocker(said.append)
    assert f"the tarball is not available ({why}" in said[-1]
    name = f"{runtime.name}-{tools.Tools.machine()}"
    assert (store.udocker / "bin" / name).read_bytes() == runtime.read_bytes()
    # It is not tried again.
    tools.Tools(store).ensure_udocker(pytest.fail)


UNPACK = """
import sys
from pathlib import Path
from argosy_images import tools
from argosy_images.store.store import Store

tools.SYSTEM_FOLDERS = ()
print(tools.Tools(Store(Path(sys.argv[1]))).require("proot", print))
"""
AS_ROOT = ("unshare", "--user", "--map-root-user", "--mount")


def programs_but(name: str, folder: Path) -> Path:
    """Return a folder with links to all programs of this machine except one."""
    folder.mkdir()
    for place in [*os.environ["PATH"].split(os.pathsep), *tools.SYSTEM_FOLDERS]:
        for program in Path(place).glob("*"):
            if program.name != name and not os.path.lexists(folder / program.name):
                (folder / program.name).symlink_to(program)
    return folder


@pytest.mark.parametrize("as_whom", [(), AS_ROOT], ids=["oneself", "root-of-a-namespace"])
def test_a_package_is_unpacked_into_the_store_without_root(
    tmp_path: Path, as_whom: Sequence[str]
) -> None:
    """Root of a user namespace cannot install packages; tests as the machine's root must not."""
    store = Store(tmp_path / "store")
    if os.geteuid() == 0:
        as_whom = AS_ROOT
    done = subprocess.run(
        [*as_whom, sys.executable, "-c", UNPACK, store.path],
        env={**os.environ, "PATH": str(programs_but("proot", tmp_path / "programs"))},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    said, path = done.stdout.splitlines()
    assert said == f"container tools: unpacking proot and its dependencies into {store.tools}"
    program = Path(path)
    assert program.is_relative_to(store.tools)
    done = subprocess.run(
        [program, "--version"], env=tools.Tools(store).environment(), capture_output=True
    )
    assert done.returncode == 0


def test_a_program_is_found_when_its_package_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path / "store")
    later = programs_but("proot", tmp_path / "later")
    interrupted = programs_but("dpkg-deb", tmp_path / "interrupted")
    (interrupted / "proot").unlink(missing_ok=True)
    unpacks = f'{shutil.which("dpkg-deb")} "$@" && [[ "$*" != *proot* ]]\n'
    (interrupted / "dpkg-deb").write_text(f"#!/bin/bash\n{unpacks}")
    (interrupted / "dpkg-deb").chmod(0o755)
    command = [*AS_ROOT] if os.geteuid() == 0 else []
    command += [sys.executable, "-c", UNPACK, str(store.path)]
    monkeypatch.setenv("PATH", str(interrupted))
    failed = subprocess.run(command, capture_output=True, text=True)
    assert "proot is missing and cannot be installed from here" in failed.stderr
    # Neither now nor by others, which look without a lock.
    assert not [*store.path.rglob("proot")]
    monkeypatch.setenv("PATH", str(later))
    assert subprocess.run(command, capture_output=True).returncode == 0


def test_why_a_package_cannot_be_had_is_said_in_apt_s_own_words(tmp_path: Path) -> None:
    command = [sys.executable, "-c", UNPACK.replace("proot", "no-such-tool"), tmp_path / "store"]
    done = subprocess.run([*AS_ROOT, *command], capture_output=True, text=True)
    assert (
        "ArgosyError: no-such-tool is missing and cannot be installed from here "
        "(E: Unable to locate package no-such-tool): ask the site for the package"
    ) in done.stderr


def test_programs_and_libraries_of_packages_are_found_in_and_outside_of_usr(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    unpacked = store.tools / "packages" / "a-package"
    for name in ("usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu", "sbin", "usr/bin"):
        (unpacked / name).mkdir(parents=True)
    program = unpacked / "sbin" / "a-program-of-no-machine"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert tools.Tools(store).find(program.name) == program
    libraries = tools.Tools(store).environment()["LD_LIBRARY_PATH"].split(":")
    assert {
        str(unpacked / name) for name in ("usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu")
    } == {*libraries}


NOT_ROOT = """
from argosy_images import tools
from argosy_images.builder import fetching
print(tools._may_install(), fetching._as_ordinary_user())
"""


def test_udockers_tools_are_found_by_its_name_of_the_architecture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """udocker itself uses these names."""
    from udocker.helper.hostinfo import HostInfo

    for kernels in ("x86_64", "aarch64", "ppc64le"):
        monkeypatch.setattr("platform.machine", lambda kernels=kernels: kernels)
        assert tools.Tools.machine() == HostInfo().arch()
        store = Store(tmp_path / kernels)
        (store.udocker / "bin").mkdir(parents=True)
        program = store.udocker / "bin" / f"proot-{tools.Tools.machine()}-4_8_0"
        program.touch(0o755)
        assert tools.Tools(store).find_proot() == program


def test_root_of_a_namespace_makes_a_base_as_an_ordinary_user() -> None:
    """Root of a namespace cannot make files of other users."""
    command = [*AS_ROOT, sys.executable, "-c", NOT_ROOT]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said.startswith("False ['unshare', '--user', '--map-user=1000'")


def test_crun_is_taken_only_where_runc_cannot_be_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """podman installs crun on many hosts, but crun does not work on all of them."""
    store = Store(tmp_path / "store")
    crun, runc = Path("/usr/bin/crun"), tmp_path / "runc"
    monkeypatch.setattr(tools.Tools, "find", lambda _, program: {"crun": crun}.get(program))
    monkeypatch.setattr(tools.Tools, "_fetch_package", lambda *_: "no network")
    assert tools.Tools(store).require_runtime(print) == crun
    fetched: dict[str, Path] = {}

    def fetch(_: tools.Tools, package: str, say: object) -> str:
        fetched[package] = runc
        return ""

    monkeypatch.setattr(tools.Tools, "_fetch_package", fetch)
    monkeypatch.setattr(
        tools.Tools, "find", lambda _, program: {"crun": crun, **fetched}.get(program)
    )
    assert tools.Tools(store).require_runtime(print) == runc
