"""Run commands as on most clusters: without apt, dpkg and other programs, with an older util-linux."""

import os
import shutil
import tarfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from registries import Layout, push, registry

from argosy_images import tools
from argosy_images.rootfs.archive import layer_tar
from argosy_images.rootfs.layers import read_overlay
from argosy_images.store.store import Store

DEBIANS_OWN = ("apt", "apt-get", "apt-cache", "apt-config", "dpkg", "dpkg-deb", "mmdebstrap")

YOUNGER = (
    *(
        "--map-user",
        "--map-users",
        "--map-group",
        "--map-groups",
        "--map-auto",
        "--map-current-user",
    ),
    *("--keep-caps", "--root", "--wd", "--setuid", "--setgid", "--time"),
)
"""Options of unshare(1) that util-linux 2.32 lacks."""

_OLD_UNSHARE = """#!/bin/sh
for option in "$@"; do
    case $option in
        {younger}) echo "unshare: unrecognized option '$option'" >&2; exit 1 ;;
        -*) ;;
        *) break ;;
    esac
done
exec {unshare} "$@"
"""

# Two overlays are nested already, and Linux allows no third.
_WORLD = """
if [ -n "$1" ]; then
    for turn in 1 2; do
        mkdir -p "$1.upper$turn" "$1.work$turn"
        folders="lowerdir=$1,upperdir=$1.upper$turn,workdir=$1.work$turn"
        mount -t overlay overlay -o "userxattr,$folders" "$1" || exit 99
    done
    cd "$1"
fi
shift
while [ "$1" != -- ]; do
    mount --bind "$1" "$2" || exit 99
    shift 2
done
shift
exec setpriv --ambient-caps -all --inh-caps -all --bounding-set -all "$@"
"""


def on_red_hat(
    folder: Path,
    *command: str | Path,
    missing: Sequence[str] = (),
    without_overlay: Path | None = None,
) -> list[str | Path]:
    """Return how a command is started, as the same user, in that world; `folder` holds what hides it.

    Args:
        without_overlay: a folder below which there is no overlay file system; the command starts there.
    """
    folder.mkdir(exist_ok=True)
    nothing = folder / "no-program"
    nothing.touch(mode=0o644)
    unshare = _place("unshare")
    assert unshare
    kept = folder / "unshare-of-the-host"
    shutil.copy(unshare, kept)
    old = folder / "old-unshare"
    old.write_text(
        _OLD_UNSHARE.format(younger="|".join(f"{name}*" for name in YOUNGER), unshare=kept)
    )
    old.chmod(0o755)
    hidden = [place for name in (*DEBIANS_OWN, *missing) if (place := _place(name))]
    binds = [part for place in hidden for part in (nothing, place)]
    world = [
        "unshare",
        "--user",
        "--map-current-user",
        "--keep-caps",
        "--mount",
        "sh",
        "-c",
        _WORLD,
    ]
    return [*world, "sh", without_overlay or "", *binds, old, unshare, "--", *command]


@contextmanager
def base_in_a_registry(store: Store, diff: Path, folder: Path, name: str) -> Iterator[str]:
    """Serve a layer's files as an image of this name from a registry on loopback; its HOST:PORT."""
    folder.mkdir(exist_ok=True)
    layout = Layout(folder / "layout")
    with layer_tar(diff, read_overlay(diff)) as stream:
        layer = stream.read()
    layout.finish(layout.image(layer, Env=["PATH=/usr/sbin:/usr/bin:/sbin:/bin"]))
    with registry(store, folder / "served") as address:
        push(store, folder / "layout", f"{address}/{name}")
        yield address


@contextmanager
def udockers_tarball(store: Store, folder: Path) -> Iterator[str]:
    """Serve udocker's tools, of which runc is one, on loopback; the URL."""
    folder.mkdir(exist_ok=True)
    (folder / "VERSION").write_text(f"{tools.TARBALL_RELEASE}\n")
    with tarfile.open(folder / "tools.tar.gz", "w:gz") as archive:
        archive.add(folder / "VERSION", "udocker_dir/lib/VERSION")
        runc = tools.Tools(store).require("runc", print).resolve()
        archive.add(runc, f"udocker_dir/bin/runc-{tools.Tools.machine()}")
    handler = partial(SimpleHTTPRequestHandler, directory=folder)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/tools.tar.gz"
        server.shutdown()


def _place(name: str) -> Path | None:
    found = shutil.which(name, path=os.pathsep.join([os.defpath, "/usr/sbin", "/sbin"]))
    return Path(found).resolve() if found else None
