"""`make compare-namespaces`: Dockerfiles built with user namespaces, and by proot without them.

Compared are all files by path, mode and content; of what is written by chance or with the time, path and
mode alone. Names of images of containers/ may be given: those take as long as their compilers do below
proot. Needs tests/factories and tests/containers on PYTHONPATH.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from no_namespaces import forbidding
from test_same_as_podman import ORDINARY, fill, listing

from argosy_common.disk import remove_tree
from argosy_images.store.lockfile import ImageLock
from argosy_images.store.store import Store

ROOT = Path(__file__).parents[1]
WRITTEN_ANEW = (".pyc", "/RECORD", ".dist-info/REQUESTED")
SHOWN = 6

Listing = dict[str, tuple[str, str]]


def main() -> int:
    """Build each image both ways, print what differs and, last, the figures as JSON."""
    chosen = sys.argv[1:] or [*ORDINARY]
    figures = {}
    with tempfile.TemporaryDirectory(prefix="argosy-bench-", dir=ROOT / ".argosy") as name:
        project = Path(name)
        shutil.copytree(ROOT / "containers", project / "containers")
        for image in set(chosen) & set(ORDINARY):
            folder = project / "containers" / image
            fill(folder)
            (folder / "Dockerfile").write_text(ORDINARY[image])
        # From nothing, so that the base is made by proot as well.
        stores = [Store.of_project(ROOT), Store(project / "store")]
        for image in chosen:
            figures[image] = compare(project, stores, image)
            print(
                f"{image}: " + ", ".join(f"{key} {value}" for key, value in figures[image].items())
            )
        remove_tree(stores[1].path)
    print(json.dumps(figures))
    return 0


def compare(project: Path, stores: Sequence[Store], image: str) -> dict[str, float]:
    """Build an image both ways: how many paths there are, how many differ, and the seconds."""
    command = [sys.executable, "-m", "argosy.cli", "image", "build", image]
    ours, with_s = built(project, stores[0], command, image)
    theirs, without_s = built(project, stores[1], forbidding(*command), image)
    different = sorted(path for path in {*ours, *theirs} if not is_same(path, ours, theirs))
    for path in different[:SHOWN]:
        there = [each.get(path, ("missing",))[0] for each in (ours, theirs)]
        print(f"    {path}: {there[0]} with namespaces, {there[1]} without")
    return {
        "files": len(ours),
        "different": len(different),
        "with_s": with_s,
        "without_s": without_s,
    }


def built(
    project: Path, store: Store, command: Sequence[str | Path], image: str
) -> tuple[Listing, float]:
    """The files of the image that a command builds in a store, and the seconds that it took."""
    began = time.monotonic()
    environment = {**os.environ, "ARGOSY_STORE": str(store.path)}
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True)
    seconds = round(time.monotonic() - began, 1)
    if done.returncode:
        raise SystemExit(done.stderr)
    lock = ImageLock.read(project / "resources/images" / image / "image.lock")
    return listing(store.root(lock.digest)), seconds


def is_same(path: str, ours: Listing, theirs: Listing) -> bool:
    """Whether a path is the same in both."""
    if path not in ours or path not in theirs:
        return False
    by_chance = path.endswith(WRITTEN_ANEW)
    return ours[path][0] == theirs[path][0] if by_chance else ours[path] == theirs[path]


if __name__ == "__main__":
    sys.exit(main())
