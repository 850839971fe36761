"""`make check-red-hat`: the demo from nothing on a host like most clusters, as an ordinary user.

There is no apt, dpkg, runc or crun, no overlay file system and no younger option of util-linux; `python3`
is 3.6, and a newer one has another name. The base comes from a registry and runc from udocker's tarball,
both on loopback.
"""

import os
import subprocess
import sys
from pathlib import Path
from tempfile import mkdtemp

from red_hat import base_in_a_registry, on_red_hat, udockers_tarball

from argosy_common.disk import remove_tree
from argosy_images.builder.builder import build_image
from argosy_images.builder.recipe import plan
from argosy_images.store.store import Store

PROJECT = Path(__file__).parents[2]
BASE_IN_REGISTRY = "library/debian:bookworm-slim"
BASE = f"docker.io/{BASE_IN_REGISTRY}"
OLD_PYTHON = "#!/bin/sh\ncase $1 in --version) echo 'Python 3.6.8' ;; *) exit 1 ;; esac\n"
MIRRORS = (
    '[[registry]]\nprefix = "docker.io/library"\nlocation = "{address}/library"\ninsecure = true\n'
)
NOT_THERE = (
    "! command -v apt-get && ! command -v dpkg && ! command -v runc && ! command -v crun && "
    "! python3 -c pass && ! unshare --map-auto true 2>/dev/null && "
    "mkdir -p tried/a tried/b tried/c tried/d && ! unshare --user --map-root-user --mount mount -t overlay "
    "overlay -o userxattr,lowerdir=tried/a,upperdir=tried/b,workdir=tried/c tried/d 2>/dev/null"
)


def main() -> int:
    """Make the world, run the demo in it and say whether all is there; its exit status."""
    store = Store.of_project(PROJECT)
    folder = Path(mkdtemp(prefix="argosy-red-hat-", dir="/var/tmp"))
    try:
        diff = _base(store, folder)
        with (
            base_in_a_registry(store, diff, folder / "registry", BASE_IN_REGISTRY) as address,
            udockers_tarball(store, folder / "tarball") as url,
        ):
            return _demo(folder, address, url)
    finally:
        remove_tree(folder)


def _base(store: Store, folder: Path) -> Path:
    """Return the files of Debian's layer in the store, made if it is not there."""
    image = folder / "base"
    image.mkdir()
    (image / "Containerfile").write_text(f"FROM {BASE}\n")
    build_image(store, image, folder / "image.lock", folder / "build.log")
    return store.layer(plan(image).final.key) / "diff"


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
