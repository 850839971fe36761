"""`make bench-planning`: `snakemake -n` of studies of many points, beside empty workflows of as many jobs.

An empty workflow has one rule without inputs. A study has four sizes of each experiment; it is new, or
planned and not run yet. All take turns. CPU time is of the process; it depends less on what else the
machine does.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from workspace import BIN, Workspace

PROJECT = Path(__file__).parents[1]
SIZES = (1, 2, 3, 4)
EMPTY = """
rule all:
    input: expand("results/{{experiment}}/{{size}}.txt", experiment=range({experiments}), size={sizes})
rule run:
    output: "results/{{experiment}}/{{size}}.txt"
    shell: "touch {{output}}"
"""


@dataclass(frozen=True)
class Cost:
    """Of a process, in seconds."""

    wall: float
    cpu: float


def main() -> None:
    """Measure all numbers of points, print the table and the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("points", nargs="*", type=int, default=[1000, 2000, 4000, 10_000])
    parser.add_argument("--turns", type=int, default=3)
    asked = parser.parse_args()
    print("points   empty    new   planned   ratios of wall time   ratios of CPU time")
    figures = {points: measure(points, asked.turns) for points in asked.points}
    print(json.dumps(figures))


def measure(points: int, turns: int) -> dict[str, float]:
    """Return the median times of the three, and the median ratios of turns; print a line of the table."""
    with tempfile.TemporaryDirectory(prefix="argosy-bench-") as scratch:
        folders = {name: Path(scratch) / name for name in ("empty", "new", "planned")}
        write_empty(folders["empty"], points)
        for name in ("new", "planned"):
            write_study(folders[name], points)
        snakemake(folders["planned"], "--until", "plan_runs")
        costs = [{name: snakemake(folders[name], "-n") for name in folders} for _ in range(turns)]
    found = {f"{name}_s": statistics.median(turn[name].wall for turn in costs) for name in folders}
    for name in ("new", "planned"):
        for kind in ("wall", "cpu"):
            ratios = [getattr(turn[name], kind) / getattr(turn["empty"], kind) for turn in costs]
            found[f"{name}_{kind}_ratio"] = statistics.median(ratios)
    times = "  ".join(f"{found[f'{name}_s']:5.1f} s" for name in folders)
    ratios = "     ".join(
        f"{found[f'new_{kind}_ratio']:.2f}, {found[f'planned_{kind}_ratio']:.2f}"
        for kind in ("wall", "cpu")
    )
    print(f"{points:6}  {times}   {ratios}", flush=True)
    return found


def write_empty(folder: Path, points: int) -> None:
    """Write a workflow that has as many jobs, and nothing else."""
    folder.mkdir()
    text = EMPTY.format(experiments=points // len(SIZES), sizes=SIZES)
    (folder / "Snakefile").write_text(text)


def write_study(folder: Path, points: int) -> None:
    """Write a project whose experiments have one repeat of each size."""
    workspace = Workspace.copy(PROJECT, folder, PROJECT / ".argosy")
    experiment = {
        "runtime": "native",
        "launcher": "plain",
        "command": "bash -c 'echo rate 5'",
        "throughput": "rate ([0-9]+)",
        "scale": {"nodes": [*SIZES], "repeats": 1},
        "resources": {"time": "2m"},
    }
    workspace.configure({f"e{number}": experiment for number in range(points // len(SIZES))})


def snakemake(folder: Path, *arguments: str) -> Cost:
    """Run Snakemake in a folder, and return what it cost."""
    began = time.monotonic()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            [BIN / "snakemake", "--quiet", "all", *arguments],
            cwd=folder,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            output.seek(0)
            sys.exit(f"snakemake in {folder} failed:\n{output.read().decode()}")
    return Cost(time.monotonic() - began, used.ru_utime + used.ru_stime)


if __name__ == "__main__":
    main()
