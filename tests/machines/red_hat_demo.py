"""`make check-red-hat`: the demo from nothing on a host like most clusters, as an ordinary user.

There is no apt, dpkg, runc or crun, no overlay file system and no younger option of util-linux; `python3`
is 3.6, and a newer one has another name. The base comes from a registry and runc from udocker's tarball,
both on loopback.
"""

import os
import platform
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory

from red_hat import on_red_hat
from registries import Layout, push, registry

from argosy.images import tools
from argosy.images.builder.builder import build_image
from argosy.images.builder.recipe import plan
from argosy.images.rootfs.archive import layer_tar
from argosy.images.rootfs.layers import read_overlay
from argosy.images.store.store import Store, remove_tree

PROJECT = Path(__file__).parents[2]
BASE = "docker.io/library/debian:bookworm-slim"
OLD_PYTHON = "#!/bin/sh\ncase $1 in --version) echo 'Python 3.6.8' ;; *) exit 1 ;; esac\n"
MIRRORS = (
    '[[registry]]\nprefix = "docker.io/library"\nlocation = "{address}/library"\ninsecure = true\n'
)
NOT_THERE = (
    "! command -v apt-get dpkg runc crun && ! python3 -c pass && ! unshare --map-auto true 2>/dev/null && "
    "mkdir -p tried/a tried/b tried/c tried/d && ! unshare --user --map-root-user --mount mount -t overlay "
    "overlay -o userxattr,lowerdir=tried/a,upperdir=tried/b,workdir=tried/c tried/d 2>/dev/null"
)


def main() -> int:
    """Make the world, run the demo in it and say whether all is there; its exit status."""
    store = Store.of_project(PROJECT)
    folder = Path(TemporaryDirectory(prefix="argosy-red-hat-", dir="/var/tmp").name)
    try:
        with _base(store, folder) as address, _tarball(store, folder) as url:
            return _demo(folder, address, url)
    finally:
        remove_tree(folder)


@contextmanager
def _base(store: Store, folder: Path) -> Iterator[str]:
    """Serve Debian as docker.io's library would; the registry's address."""
    image = folder / "base"
    image.mkdir(parents=True)
    (image / "Containerfile").write_text(f"FROM {BASE}\n")
    build_image(store, image, folder / "image.lock", folder / "build.log")
    diff = store.layer(plan(image).final.key) / "diff"
    layout = Layout(folder / "layout")
    with layer_tar(diff, read_overlay(diff)) as stream:
        layer = stream.read()
    layout.finish(layout.image(layer, Env=["PATH=/usr/sbin:/usr/bin:/sbin:/bin"]))
    with registry(store, folder / "served") as address:
        push(store, folder / "layout", f"{address}/library/debian:bookworm-slim")
        yield address


@contextmanager
def _tarball(store: Store, folder: Path) -> Iterator[str]:
    """Serve udocker's tools, of which runc is one; the URL."""
    served = folder / "tarball"
    served.mkdir()
    (served / "VERSION").write_text(f"{tools.TARBALL_RELEASE}\n")
    with tarfile.open(served / "tools.tar.gz", "w:gz") as archive:
        archive.add(served / "VERSION", "udocker_dir/lib/VERSION")
        runc = tools.require(store, "runc", print).resolve()
        archive.add(runc, f"udocker_dir/bin/runc-{platform.machine()}")
    handler = partial(SimpleHTTPRequestHandler, directory=served)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/tools.tar.gz"
        server.shutdown()


def _demo(folder: Path, address: str, tarball: str) -> int:
    project, programs = folder / "project", folder / "programs"
    project.mkdir()
    programs.mkdir()
    (programs / "python3").write_text(OLD_PYTHON)
    (programs / "python3").chmod(0o755)
    (folder / "registries.conf").write_text(MIRRORS.format(address=address))
    archive = subprocess.Popen(["git", "archive", "HEAD"], cwd=PROJECT, stdout=subprocess.PIPE)
    subprocess.run(["tar", "-x", "-C", project], stdin=archive.stdout, check=True)
    (folder / "home").mkdir()
    variables = {name: value for name, value in os.environ.items() if name != "ARGOSY_STORE"} | {
        "PATH": f"{programs}:/usr/bin:/bin",
        "HOME": str(folder / "home"),
        "UDOCKER_TARBALL": tarball,
        "CONTAINERS_REGISTRIES_CONF": str(folder / "registries.conf"),
    }
    script = (
        f"{NOT_THERE} || {{ echo 'the world is not what it should be' >&2; exit 99; }}; make demo"
    )
    done = subprocess.run(
        on_red_hat(
            folder / "world",
            *("sh", "-c", script),
            missing=("runc", "crun"),
            without_overlay=project,
        ),
        cwd=project,
        env=variables,
    )
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
