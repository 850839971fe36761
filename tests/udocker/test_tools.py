"""Container tools from a server, from the distribution's packages, or a message that helps."""

import os
import subprocess
import tarfile
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from argosy.errors import ArgosyError
from argosy.images import tools
from argosy.images.store import Store

pytestmark = pytest.mark.udocker


def test_udockers_own_tarball_is_taken_where_it_can_be_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "VERSION").write_text("1.2.11\n")
    (tmp_path / "runc").write_text("#!/bin/sh\n")
    with tarfile.open(tmp_path / "tools.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "VERSION", "udocker_dir/lib/VERSION")
        archive.add(tmp_path / "runc", "udocker_dir/bin/runc-from-the-tarball")
    handler = partial(SimpleHTTPRequestHandler, directory=tmp_path)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/tools.tar.gz"
        monkeypatch.setenv("UDOCKER_TARBALL", url)
        said: list[str] = []
        store = Store(tmp_path / "store")
        tools.ensure_udocker(store, said.append)
        server.shutdown()
    assert said == ["container tools: fetching udocker's own tarball"]
    assert (store.udocker / "bin/runc-from-the-tarball").is_file()


def test_a_package_is_unpacked_into_the_store_without_root(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root installs packages instead, which a test must not do to a machine")
    store = Store(tmp_path / "store")
    program = tools.require(store, "proot", print)
    assert program.is_relative_to(store.tools)
    done = subprocess.run([program, "--version"], env=tools.environment(store), capture_output=True)
    assert done.returncode == 0


def test_what_cannot_be_had_is_named_with_what_to_ask_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        ArgosyError, match=r"no-such-tool is missing .*: ask the site for the package"
    ):
        tools.require(Store(tmp_path / "store"), "no-such-tool", print)
