"""`make bench-staging`: unpacking an image on a node, beside tar with zstd.

The frozen image torch-cpu, packed by Argosy, and the same tree as one tar that `tar -I 'zstd -T0'` made.
Both are unpacked into the same file system, in turns, each after what was written before is on disk.
The first argument is the folder where to; by default a temporary one.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from argosy_common.disk import remove_tree
from argosy_images.archive.packing import pack_image
from argosy_images.archive.unpacking import read_index, unpack
from argosy_images.staging.folder import Wanted
from argosy_images.staging.stage import Place, staged
from argosy_images.store.lockfile import ImageLock
from argosy_images.store.store import Store

ROOT = Path(__file__).parents[1]
REPEATS = 5
BAR = 0.7


def main(arguments: list[str]) -> int:
    """Measure, print the table and, last, the figures as JSON."""
    if not shutil.which("zstd"):
        sys.exit("the program zstd is not installed (Debian package zstd)")
    store = Store.of_project(ROOT)
    lock = ImageLock.read(ROOT / "resources/images/torch-cpu/image.lock")
    packed = pack_image(store, lock, print)
    index = read_index(packed, lock.digest, "argosy image pack torch-cpu")
    place = arguments[0] if arguments else None
    with tempfile.TemporaryDirectory(prefix="argosy-bench-", dir=place) as scratch:
        folder = Path(scratch)
        tar = folder / "image.tar.zst"
        root = store.root(lock.digest)
        run("tar", "-I", "zstd -T0", "-cf", tar, "-C", root, ".")
        ways = {
            "argosy": lambda out: unpack(packed, index, out, ""),
            "tar -I 'zstd -T0' -xf": lambda out: untar(tar, out),
        }
        seconds = measure(ways, folder / "out")
        wanted = Wanted(lock.digest, lock.name, packed)
        again = statistics.median(time_of_use(wanted, folder) for _ in range(REPEATS))
        sizes = {"argosy": packed.stat().st_size, "tar": tar.stat().st_size}
    return tell(index.size, seconds, sizes, again)


def run(*command: str | Path) -> None:
    """Run a command, which has to go well."""
    subprocess.run(command, check=True)


def untar(tar: Path, out: Path) -> None:
    """What one would do by hand."""
    out.mkdir()
    run("tar", "-I", "zstd -T0", "-xf", tar, "-C", out)


def measure(ways: dict[str, Callable[[Path], None]], out: Path) -> dict[str, list[float]]:
    """Seconds of each way, in turns; each begins every other time."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for repeat in range(REPEATS):
        for name, way in sorted(ways.items(), reverse=bool(repeat % 2)):
            os.sync()
            began = time.monotonic()
            way(out)
            seconds[name].append(time.monotonic() - began)
            remove_tree(out)
    return seconds


def time_of_use(wanted: Wanted, folder: Path) -> float:
    """Seconds until an image that is there can be used."""
    place = Place(folder, 1 << 40)
    with staged(wanted, place, print):
        pass
    began = time.monotonic()
    with staged(wanted, place, print):
        return time.monotonic() - began


def tell(size: int, seconds: dict[str, list[float]], sizes: dict[str, int], again: float) -> int:
    """Print what was measured."""
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    for name, values in seconds.items():
        span = f"({min(values):.2f} to {max(values):.2f})"
        speed = size / medians[name] / 1e6
        print(f"{name:24}{medians[name]:8.2f} s {span:18}{speed:8.0f} MB/s")
    ours, theirs = medians.values()
    ratio = theirs / ours
    print(f"throughput of Argosy over tar: {ratio:.2f} (bar: at least {BAR})")
    print(f"an image that is there already: {again * 1000:.1f} ms")
    figures = {"seconds": seconds, "ratio": ratio, "packed_bytes": sizes, "again_s": again}
    print(json.dumps(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
