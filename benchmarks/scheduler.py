"""Times 100 short jobs on the tests' Slurm cluster: bare sbatch, Argosy, and the Slurm plugin of Snakemake.

Counts what slurmctld is asked for each of them, and the memory of Argosy's driver with 500 queued jobs.
Prints a table and, as its last line, the figures as JSON. The ways take turns, so that what else the
machine does concerns all alike. Needs the folder tests/slurm on PYTHONPATH.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from cluster import Cluster, missing
from scheduler_memory import measure_memory
from scheduler_ways import PEER_OPTIONS, Jobs, Way, argosy, bare, make_peer, measure, peer

JOBS = 100
QUEUED = 500
REPEATS = 3
BARS = {"rpcs_of_peer": 0.25, "seconds_over_bare": 2.0, "above_start_mb": 50.0}


def main() -> int:
    options = _options()
    if problem := missing():
        raise SystemExit(problem)
    with tempfile.TemporaryDirectory(prefix="argosy-bench-") as name:
        folder = Path(name)
        ways: dict[str, Way] = {"bare sbatch": bare, "argosy": argosy}
        if not options.no_peer:
            snakemake = make_peer(options.peer or folder / "peer", version("snakemake"))
            ways["snakemake-executor-plugin-slurm"] = peer(snakemake)
        figures = measure_all(folder, ways, options.repeats)
    show(figures)
    return 0


def measure_all(folder: Path, ways: dict[str, Way], repeats: int) -> dict[str, Any]:
    """All figures, and how they stand to the bars."""
    load = [round(os.getloadavg()[0], 1)]
    with Cluster.start(folder / "cluster") as cluster:
        memory = measure_memory(cluster, folder / "queued", QUEUED)
    # A new one: slurmctld would tell for five minutes of the jobs that it has cancelled.
    with Cluster.start(folder / "cluster") as cluster:
        runs = take_turns(cluster, folder, ways, repeats)
    load.append(round(os.getloadavg()[0], 1))
    found = {name: summary(each) for name, each in runs.items()}
    return {
        "jobs": JOBS,
        "cpus": os.cpu_count(),
        "load_before_and_after": load,
        "peer_options": " ".join(PEER_OPTIONS),
        "ways": found,
        "memory": memory,
        "bars": bars(found, memory),
    }


def take_turns(
    cluster: Cluster, folder: Path, ways: dict[str, Way], repeats: int
) -> dict[str, list[dict[str, float]]]:
    """Each way in turn, again and again."""
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in ways}
    for repeat in range(repeats):
        for number, (name, way) in enumerate(ways.items()):
            jobs = Jobs.write(folder / f"way{number}-{repeat}", JOBS)
            found = {**measure(cluster, way, jobs), "load": round(os.getloadavg()[0], 1)}
            print(f"{time.strftime('%T')} {name}: {found}", file=sys.stderr)
            runs[name].append(found)
            cluster.wait_until_idle()
    return runs


def summary(runs: list[dict[str, float]]) -> dict[str, Any]:
    """Medians over the repeats, and the times of each."""
    names = {name for run in runs for name in run}
    medians = {n: round(statistics.median(run.get(n, 0.0) for run in runs), 2) for n in names}
    return {**dict(sorted(medians.items())), "all_seconds": [run["seconds"] for run in runs]}


def bars(ways: dict[str, dict[str, Any]], memory: dict[str, float]) -> dict[str, Any]:
    """What is measured against each bar, and whether it holds."""
    plain, own, *others = ways.values()
    # Within a repeat, as what else the machine does differs more than the ways do.
    pairs = zip(own["all_seconds"], plain["all_seconds"], strict=True)
    values = {
        "seconds_over_bare": round(statistics.median(mine - other for mine, other in pairs), 2),
        "above_start_mb": memory["above_start_mb"],
    }
    for other in others:
        values["rpcs_of_peer"] = round(own["rpcs"] / other["rpcs"], 3)
    return {n: {"is": v, "bar": BARS[n], "holds": v <= BARS[n]} for n, v in values.items()}


def show(figures: dict[str, Any]) -> None:
    print(f"{JOBS} jobs{'':29} seconds  (min to max)      messages a job")
    for name, way in figures["ways"].items():
        times = way["all_seconds"]
        print(f"{name:37} {way['seconds']:7}  ({min(times)} to {max(times)})   {way['rpcs']:10}")
    for name, value in figures["memory"].items():
        print(f"{name:37} {value:7}")
    for name, bar in figures["bars"].items():
        print(f"{name:37} {bar['is']:7}  bar {bar['bar']}: {'holds' if bar['holds'] else 'MISSED'}")
    print(json.dumps(figures))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--no-peer", action="store_true", help="without the other plugin")
    parser.add_argument("--peer", type=Path, help="keep its environment in this folder")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
