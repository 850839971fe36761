"""Times `make demo` from a clean clone, nothing cached, and then again; as whoever starts it.

Standard library only, as it makes the environment that it measures. Prints a table and, as its last
line, the figures as JSON.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROJECT = Path(__file__).parents[1]
WARM_REPEATS = 5
# What the output says when a stage ends, in order.
STAGES = {
    "environment and container tools": r"Building DAG of jobs",
    "base system": r"^1 of \d+ steps are cached$",
    "packages, torch": r"^\[\d+/\d+\] RUN pip install .*numpy.* s$",
    "Horovod": r"^\[\d+/\d+\] RUN --mount=type=bind,from=localhost/horovod.* s$",
    "rest of the image": r"^image \S+ sha256:\w+ is frozen",
    "training, 6 runs": r"^Job \d+: Collecting",
    "tables, report": r"^Report: ",
}


def main() -> int:
    folder = Path(tempfile.mkdtemp(prefix="argosy-bench-"))
    try:
        return measure(folder)
    finally:
        subprocess.run(["chmod", "-R", "u+w", folder], check=False)
        shutil.rmtree(folder, ignore_errors=True)


def measure(folder: Path) -> int:
    clone, home = folder / "argosy", folder / "home"
    home.mkdir()
    subprocess.run(["git", "clone", "--quiet", PROJECT, clone], check=True)
    # A home of its own: no cache and no udocker folder of earlier days.
    environment = {**os.environ, "HOME": str(home), "XDG_CACHE_HOME": str(home / "cache")}
    for name in ("ARGOSY_STORE", "MAKEFLAGS", "MAKELEVEL"):
        environment.pop(name, None)
    stages, cold = demo(clone, environment)
    warm = sorted(demo(clone, environment)[1] for _ in range(WARM_REPEATS))
    points = json.loads((clone / "results/local/summary.json").read_text())["experiments"][0]
    (root,) = [path for path in (clone / ".argosy/roots").iterdir() if path.is_dir()]
    figures = {
        "user": "root" if os.geteuid() == 0 else "ordinary",
        "cpus": os.cpu_count(),
        "cold_s": round(cold, 1),
        "stages_s": stages,
        "warm_s": {"min": warm[0], "median": warm[len(warm) // 2], "max": warm[-1]},
        "image_bytes": size_of(root),
        "accuracy": {str(point["ranks"]): point["test_accuracy_min"] for point in points["points"]},
        "speed_up": {str(point["ranks"]): point["speed_up"] for point in points["points"]},
    }
    show(figures)
    return 0


def demo(clone: Path, environment: dict[str, str]) -> tuple[dict[str, float], float]:
    """Run `make demo`; seconds of each stage, and of all."""
    started = last = time.monotonic()
    stages: dict[str, float] = {}
    waiting = list(STAGES.items())
    process = subprocess.Popen(
        ["make", "demo"],
        cwd=clone,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout
    for line in process.stdout:
        sys.stderr.write(line)
        for number, (stage, pattern) in enumerate(waiting):
            if re.search(pattern, line.rstrip()):
                now = time.monotonic()
                stages[stage], last = round(now - last, 1), now
                del waiting[: number + 1]
                break
    if process.wait() != 0:
        raise SystemExit("make demo failed")
    return stages, round(time.monotonic() - started, 2)


def size_of(root: Path) -> int:
    """Bytes of all files, as `du --apparent-size` counts."""
    done = subprocess.run(["du", "-sb", root], capture_output=True, text=True, check=True)
    return int(done.stdout.split()[0])


def show(figures: dict[str, object]) -> None:
    for name, value in figures.items():
        if isinstance(value, dict):
            print(name)
            for key, inner in value.items():
                print(f"    {key:34} {inner}")
        else:
            print(f"{name:38} {value}")
    print(json.dumps(figures))


if __name__ == "__main__":
    sys.exit(main())
