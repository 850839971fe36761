"""`make bench-overhead`: training in a container beside the same wheels without one, on one pinned core.

Both run the digits with the files of the frozen image torch-cpu, from the C library to PyTorch: in a
container, and started by the image's own loader on the bare host. In turns, so that both meet the same
weather. Samples per second are of the steps after the first epoch: of all their time, and of the median
step, which other work on the machine changes less.
"""

import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from scipy import stats

from argosy.images import container
from argosy.images.container import Bind, Container
from argosy.images.engines import engine_of_host
from argosy.images.lockfile import read_lock
from argosy.images.store import Store

ROOT = Path(__file__).parents[1]
RUNTIME = ROOT / "workflow/src/argosy/runtime/python"
WORKLOADS = ROOT / "containers/workloads"
PACKAGES = "opt/venv/lib/python3.11/site-packages"
PAIRS = 20
EPOCHS = 3
SETTINGS = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "LANG": "C.UTF-8", "HOME": "/tmp"}

Way = Callable[[Path], None]


@dataclass(frozen=True)
class Rates:
    """Samples per second of one training."""

    whole: float
    median_step: float


def main() -> int:
    """Measure, print the table and, last, the figures as JSON."""
    store = Store.of_project(ROOT)
    root = store.root(read_lock(ROOT / "resources/images/torch-cpu/image.lock").digest)
    # Inherited by all that is started from here.
    core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    engine = engine_of_host(store, root)
    ways: dict[str, Way] = {
        "container": lambda folder: in_container(store, root, engine, folder),
        "native": lambda folder: natively(root, folder),
    }
    rates: dict[str, list[Rates]] = {name: [] for name in ways}
    for pair in range(PAIRS):
        # Who begins changes, too.
        for name in sorted(ways, reverse=bool(pair % 2)):
            rates[name].append(measured(ways[name]))
        print(f"pair {pair + 1} of {PAIRS}: {rates_of(rates, pair)}", file=sys.stderr)
    print(f"samples/s of one rank on one core, {PAIRS} pairs in turns, engine {engine}")
    figures: dict[str, object] = {"engine": engine, "pairs": PAIRS}
    for kind in ("whole", "median_step"):
        by_name = {name: [getattr(one, kind) for one in found] for name, found in rates.items()}
        ratio, low, high = ratio_of(by_name["container"], by_name["native"])
        for name, values in by_name.items():
            spread = f"({min(values):.1f} to {max(values):.1f})"
            print(f"  {kind:12} {name:10} {statistics.median(values):8.1f}   {spread}")
        print(f"  {kind:12} ratio {ratio:.4f}, 95 % interval {low:.4f} to {high:.4f}")
        figures[kind] = {"ratio": ratio, "low": low, "high": high}
    print(json.dumps(figures))
    return 0


def in_container(store: Store, root: Path, engine: str, folder: Path) -> None:
    """Train in a container."""
    inside = Container(
        root,
        ["python3", *arguments("/workloads")],
        binds=[Bind(WORKLOADS, "/workloads"), Bind(RUNTIME, "/argosy"), Bind(folder, "/job")],
        environment={
            **SETTINGS,
            "PATH": "/opt/venv/bin:/usr/bin:/bin",
            "PYTHONPATH": "/argosy",
            "ARGOSY_STEPS_FILE": "/job/steps.jsonl",
        },
        engine=engine,
        workdir="/job",
    )
    output: list[bytes] = []
    if not container.run(store, inside, output.append).ok:
        sys.exit(b"".join(output).decode())


def natively(root: Path, folder: Path) -> None:
    """Train without a container."""
    loader = next(path for path in root.glob("lib*/ld-linux-*.so.*"))
    libraries = ":".join(map(str, root.glob("usr/lib/*-linux-gnu")))
    python = [str(loader), "--library-path", libraries, str(root / "usr/bin/python3")]
    done = subprocess.run(
        [*python, *arguments(str(WORKLOADS))],
        cwd=folder,
        env={
            **SETTINGS,
            "PATH": "/usr/bin:/bin",
            "PYTHONHOME": str(root / "usr"),
            "PYTHONPATH": f"{RUNTIME}:{root / PACKAGES}",
            "ARGOSY_STEPS_FILE": str(folder / "steps.jsonl"),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        sys.exit(done.stdout)


def arguments(workloads: str) -> list[str]:
    """The program, the same for both."""
    return [f"{workloads}/torch/digits.py", "--epochs", str(EPOCHS), "--warm-up-epochs", "1"]


def measured(way: Way) -> Rates:
    """Of one training."""
    with tempfile.TemporaryDirectory(prefix="argosy-bench-") as scratch:
        way(Path(scratch))
        lines = (Path(scratch) / "steps.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    steps = [record for record in records if record["kind"] == "step" and record["epoch"] > 0]
    seconds = steps[-1]["start"] + steps[-1]["seconds"] - steps[0]["start"]
    usual = statistics.median(step["seconds"] for step in steps)
    most = max(step["samples"] for step in steps)
    return Rates(whole=sum(step["samples"] for step in steps) / seconds, median_step=most / usual)


def ratio_of(ours: list[float], theirs: list[float]) -> tuple[float, float, float]:
    """Geometric mean of the pairs' ratios, and its 95 % interval (Student's t of the logarithms)."""
    logs = [math.log(a / b) for a, b in zip(ours, theirs, strict=True)]
    mean = statistics.mean(logs)
    reach = stats.t.ppf(0.975, len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(mean), math.exp(mean - reach), math.exp(mean + reach)


def rates_of(rates: dict[str, list[Rates]], pair: int) -> str:
    """A line of progress."""
    return ", ".join(f"{name} {values[pair].whole:.0f}/s" for name, values in rates.items())


if __name__ == "__main__":
    sys.exit(main())
