"""`make bench-file-calls`: what one node asks of a shared file system, from its container's start to torch.

strace(1) counts the calls with a path, of the program in a batch script and of all that it starts. Of the
program itself those count that go to the project, its environment or the store; of the container's
processes, where the image is used in place, those that go to the image. Where nodes unpack the image, all
of those are the node's own disk's, or its memory's. Waits are not shown: docs/images.md has a model.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from argosy_common.disk import remove_tree
from argosy_images import start
from argosy_images.store.lockfile import ImageLock
from argosy_images.store.store import Store

ROOT = Path(__file__).parents[1]
PROGRAM = ["python3", "-c", "import torch, horovod.torch"]
OWN_FOLDERS = ("/proc", "/sys", "/dev", "/run", "/tmp", "/job")
"""Of a container, and not of its image."""
FIRST_PROCESS = "/run/argosy/status"
"""Stands in the command of each container's first process, and in no other."""

_CALL = re.compile(r"^(\d+) +(?:<\.\.\. )?(\w+)(?: resumed>)?.*?(?:\) += (-?\d+)|<unfinished)")
_NUMBER_HERE = re.compile(r"/\* (\d+) in strace's PID NS \*/")
_PATH = re.compile(r'"((?:/|[^"])[^"]*)"')


def main() -> int:
    """Count for each way to have the image, print a table and, last, the figures as JSON."""
    if not shutil.which("strace"):
        raise SystemExit("this needs strace")
    store = Store.of_project(ROOT)
    digest = ImageLock.read(ROOT / "resources/images/torch-cpu/image.lock").digest
    if not store.archive(digest).is_file():
        subprocess.run(
            [sys.executable, "-m", "argosy.cli", "image", "pack", "torch-cpu"], check=True
        )
    figures = {}
    with tempfile.TemporaryDirectory(prefix="argosy-bench-") as name:
        scratch = Path(name)
        node = [
            "--stage",
            "node",
            "--stage-folder",
            str(scratch / "disk"),
            "--stage-room",
            "100000",
        ]
        (scratch / "disk").mkdir()
        ways = {
            "shared": [],
            "node, unpacking": node,
            "node, there already": node,
            "memory, unpacking": ["--stage", "memory"],
        }
        for way, options in ways.items():
            figures[way] = count(store, digest, scratch, options)
        remove_tree(scratch / "disk")
    print(f"{'calls on the shared file system':32}{'program':>10}{'image':>10}{'both':>10}")
    for way, found in figures.items():
        print(f"{way:32}{found['program']:10}{found['image']:10}{sum(found.values()):10}")
    print(json.dumps(figures))
    return 0


def count(store: Store, digest: str, scratch: Path, options: list[str]) -> dict[str, int]:
    """Calls of the program in the batch script, and of the container on its image."""
    trace = scratch / "trace"
    traced = ["strace", "-f", "-qq", "-s", "500", "--decode-pids=pidns", "-o", trace]
    traced += ["-e", "trace=%file,%process"]
    program = [sys.executable, "-I", "-S", str(Path(start.__file__)), "--digest", digest]
    subprocess.run(
        [*traced, *program, *options, "--log-dir", scratch, "--", *PROGRAM],
        cwd=scratch,
        env={**os.environ, "ARGOSY_STORE": str(store.path)},
        check=True,
    )
    counted = Counter(kinds(trace, [ROOT.resolve(), store.path]))
    return {"program": counted["program"], "image": 0 if options else counted["image"]}


def kinds(trace: Path, shared: list[Path]) -> Iterator[str]:
    """Yield for each call on a path whose it is: the program's on a shared folder, or one on the image."""
    inside: set[str] = set()
    with trace.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            found = _CALL.match(line)
            if not found:
                continue
            process, call, result = found.groups()
            if call in ("clone", "clone3", "fork", "vfork") and result and process in inside:
                number = _NUMBER_HERE.search(line)
                inside.add(number[1] if number else result)
            elif call == "execve" and FIRST_PROCESS in line:
                inside.add(process)
            path = _PATH.search(line)
            if not path:
                continue
            if process in inside:
                if not path[1].startswith(OWN_FOLDERS):
                    yield "image"
            elif any(path[1].startswith(str(folder)) for folder in shared):
                yield "program"


if __name__ == "__main__":
    sys.exit(main())
