"""`make bench-containers`: how long `python3 -c pass` takes in a container, one and sixteen at once.

From the frozen image torch-cpu: by each engine that works here, by Argosy's program for batch scripts as it
is, by ch-run (if charliecloud is installed), and on the host without any container.
"""

import getpass
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from argosy_images.engines import container
from argosy_images.engines.choice import choose_engine
from argosy_images.engines.models import Container
from argosy_images.store.lockfile import ImageLock
from argosy_images.store.store import Store

ROOT = Path(__file__).parents[1]
ROUNDS = 10
AT_ONCE = 16
PROGRAM = ["python3", "-c", "pass"]

Way = Callable[[], int | None]


def main() -> int:
    """Measure, print the table and, last, the figures as JSON."""
    store = Store.of_project(ROOT)
    digest = ImageLock.read(ROOT / "resources/images/torch-cpu/image.lock").digest
    with tempfile.TemporaryDirectory(prefix="argosy-bench-") as scratch:
        ways = available(store, digest, Path(scratch))
        figures = {name: measure(way) for name, way in ways.items()}
    print(
        f"{'seconds, median of ' + str(ROUNDS):34}{'one':>8}{f'{AT_ONCE} at once':>14}{'failed':>8}"
    )
    for name, (one, many, failed) in figures.items():
        print(f"{name:34}{one:8.3f}{many:14.3f}{failed:8d}")
    keys = ("one_s", "many_s", "failed")
    print(json.dumps({name: dict(zip(keys, row, strict=True)) for name, row in figures.items()}))
    return 0


def available(store: Store, digest: str, scratch: Path) -> dict[str, Way]:
    """Each way to run the program, by its name."""
    root = store.root(digest)
    ways: dict[str, Way] = {"no container": lambda: run(sys.executable, "-ISc", "pass")}
    if shutil.which("ch-run"):
        ways["ch-run"] = lambda: run("ch-run", root, "--", *PROGRAM)
    for engine in [
        trial.engine for trial in choose_engine(store, every=True).trials if trial.works
    ]:
        inside = Container(root, PROGRAM, environment={"PATH": "/usr/bin:/bin"}, engine=engine)

        def by_engine(inside: Container = inside) -> int | None:
            return container.run(store, inside, lambda data: None).status

        ways[f"engine {engine}, called from Python"] = by_engine
    command = [sys.executable, "-m", "argosy_images.run", "--digest", digest]
    ways["argosy_images.run"] = lambda: run(*command, "--log-dir", scratch, "--", *PROGRAM)
    return ways


def run(*command: str | Path) -> int:
    """The exit status of a command."""
    # ch-run asks for the variable, which a batch job always has.
    environment = {"USER": getpass.getuser(), **os.environ}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True).returncode


def measure(way: Way) -> tuple[float, float, int]:
    """Seconds of one and of several at once, and how many failed."""
    failed = 0
    one, many = [], []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for _ in range(ROUNDS):
            began = time.monotonic()
            failed += way() != 0
            one.append(time.monotonic() - began)
            began = time.monotonic()
            failed += sum(status != 0 for status in pool.map(lambda _: way(), range(AT_ONCE)))
            many.append(time.monotonic() - began)
    return statistics.median(one), statistics.median(many), failed


if __name__ == "__main__":
    sys.exit(main())
