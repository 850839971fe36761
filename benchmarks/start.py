"""`make bench-start`: from srun to the first step on four nodes, and where that time goes.

The nodes are those of the tests' cluster: four on one machine, which has to start four containers and
import four times at once. The user's imports are the program's own time; all else is ours.
"""

import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests/slurm"), str(ROOT / "tests/factories")]

from cluster import Cluster  # noqa: E402
from cluster_workspace import ClusterWorkspace  # noqa: E402
from workspace import BIN  # noqa: E402

NODES = 4
REPEATS = 7
PARTS = ("container", "nodes meet", "imports", "rendezvous", "first step", "ours", "all")


def main() -> int:
    """Measure, print the table and, last, the figures as JSON."""
    with tempfile.TemporaryDirectory(prefix="argosy-bench-") as scratch:
        folder = Path(scratch)
        with Cluster.start(folder / "cluster") as cluster:
            runs = measure(folder / "project", cluster)
    medians = {part: statistics.median(run[part] for run in runs) for part in PARTS}
    print(f"seconds from srun to the first step, {NODES} nodes, median of {len(runs)}")
    for part in PARTS:
        values = [run[part] for run in runs]
        print(f"  {part:12} {medians[part]:6.2f}   ({min(values):.2f} to {max(values):.2f})")
    print(json.dumps({"nodes": NODES, "repeats": len(runs), "median_s": medians}))
    return 0


def measure(path: Path, cluster: Cluster) -> list[dict[str, float]]:
    """Run the program as a study of its own, one job after another."""
    workspace = ClusterWorkspace.copy(ROOT, path, ROOT / ".argosy", site="testbed", cluster=cluster)
    program = path / "containers/workloads/start_program.py"
    program.write_text((ROOT / "benchmarks/start_program.py").read_text())
    experiment = {
        "image": "torch-cpu",
        "command": "python3 /workloads/start_program.py",
        "scale": {"nodes": [NODES], "repeats": REPEATS},
    }
    workspace.configure({"start": experiment})
    command = (BIN / "snakemake", "--profile", "slurm/testbed", "--jobs", "1", "--quiet", "host")
    status, output = workspace.run(*command)
    if status:
        sys.exit(output)
    names = [f"nodes{NODES}-ranks1-repeat{repeat}" for repeat in range(1, REPEATS + 1)]
    return [split(workspace.run_dir("start", name)) for name in names]


def split(run_dir: Path) -> dict[str, float]:
    """The parts of one run's start, in seconds; a part lasts until the slowest node or rank has it."""
    result = json.loads((run_dir / "result.json").read_text())
    records = run_dir / "records" / result["attempt"]
    launched = float((run_dir / "attempts" / result["attempt"] / "launched").read_text())
    nodes = [json.loads(path.read_text()) for path in records.glob("node-*.json")]
    ranks = [metrics(path) for path in records.glob("rank-*.jsonl")]
    agents = max(node["started"] for node in nodes)
    begin = max(node["ranks_started"] for node in nodes)
    imported, initialised, first = (
        max(rank[name] for rank in ranks) for name in ("imported", "initialised", "first_step")
    )
    return {
        "container": agents - launched,
        "nodes meet": begin - agents,
        "imports": imported - begin,
        "rendezvous": initialised - imported,
        "first step": first - initialised,
        "ours": first - launched - (imported - begin),
        "all": first - launched,
    }


def metrics(path: Path) -> dict[str, Any]:
    """The metrics of one rank."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return {line["name"]: line["value"] for line in lines if line["kind"] == "metric"}


if __name__ == "__main__":
    sys.exit(main())
