"""`make bench-report`: large studies from records to the finished report, beside bare engines.

One run of 1,024 ranks and 10,000 steps (1.0 GB of rows), and 1,000 runs of 1,000 steps each.
Bare copy: NumPy reads the same rows, unchecked, and DuckDB writes their columns to one Parquet file. Mean:
DuckDB reads the mean time of a step by rank from the same steps as JSON Lines (1.8 GB), and makes no table.
"""

import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import step_files
import study_files

REPEATS = 3
RANKS, STEPS = 1024, 10_000
RUNS, ROWS = 1000, 1000
SIZES = (1, 2, 4, 5, 10)
ARGOSY = Path(sys.executable).with_name("argosy")
MEAN_OF_LINES = """
import sys, duckdb
duckdb.execute("SET enable_progress_bar = false")
query = "SELECT filename, avg(seconds) FROM read_json($files, filename = true) GROUP BY ALL"
duckdb.execute(query, {"files": sys.argv[1] + "/*.jsonl"}).fetchall()
"""
COPY_OF_ROWS = """
import sys, duckdb, numpy
from pathlib import Path
from arro3.core import Array, RecordBatch, RecordBatchReader, Schema, Field, DataType
whole = ["step", "epoch", "samples"]
real = ["start", "seconds", "data", "h2d", "forward", "backward", "communication", "update"]
row = numpy.dtype([*((n, "<i8") for n in whole), *((n, "<f8") for n in real), ("check", "<u8")])
types = {n: DataType.int64() for n in ("rank", *whole)} | {n: DataType.float64() for n in real}
schema = Schema([Field(n, kind) for n, kind in types.items()])

def batch(path):
    rows = numpy.fromfile(path, row, offset=row.itemsize)
    rank = numpy.full(len(rows), int(path.stem.partition("-")[2]))
    columns = [numpy.ascontiguousarray(rows[n]) for n in (*whole, *real)]
    return RecordBatch.from_arrays([Array.from_numpy(c) for c in (rank, *columns)], schema=schema)

paths = Path(sys.argv[1]).glob("*/*/records/*/rank-*.steps")
steps = RecordBatchReader.from_batches(schema, map(batch, paths))
duckdb.execute("SET enable_progress_bar = false")
duckdb.register("steps", steps)
duckdb.execute("COPY steps TO $target (FORMAT parquet, COMPRESSION zstd)", {"target": sys.argv[2]})
"""
COPY, MEAN = "bare copy", "mean of lines"


@dataclass(frozen=True)
class Cost:
    """What a command took."""

    seconds: float
    memory_mb: float


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="argosy-bench-") as folder:
        wide, many = Path(folder) / "wide", Path(folder) / "many"
        say(f"making a run of {RANKS} ranks and {STEPS} steps")
        make_wide(wide)
        say(f"making {RUNS} runs")
        make_many(many)
        figures = {name: measured(name, site) for name, site in (("wide", wide), ("many", many))}
        figures["many"]["one new run"] = [one_new(many, repeat) for repeat in range(REPEATS)]
        html_mb = (many / "report.html").stat().st_size / 1e6
    print_table(figures)
    print(f"report of {RUNS} runs: {html_mb:.1f} MB of HTML")
    print(json.dumps(as_json(figures) | {"html_mb": html_mb}))


def make_wide(site: Path) -> None:
    """One run of many ranks, whose steps differ in every digit, and the same steps as lines beside it."""
    run = study_files.plan(site, "wide", RANKS // 8, 8)
    run.execute()
    run.steps(steps=0)
    lines = lines_of(site)
    lines.mkdir()
    for rank in range(RANKS):
        with (
            run.steps_file("100.0", rank).open("ab") as rows,
            (lines / f"rank-{rank}.jsonl").open("w") as text,
        ):
            for step in steps(random.Random(rank)):
                rows.write(step_files.row(step))
                text.write(json.dumps({"kind": "step", **step}) + "\n")


def lines_of(site: Path) -> Path:
    """Where the lines are that are compared with a site."""
    return site.with_suffix(".lines")


def steps(chance: random.Random) -> Iterator[dict[str, Any]]:
    start = 1000.0
    for step in range(STEPS):
        seconds = 0.02 * (1 + 0.1 * chance.random())
        yield {
            "step": step,
            "epoch": 0,
            "start": start,
            "seconds": seconds,
            "samples": 32,
            "phases": {"data": 0.1 * seconds, "backward": 0.5 * seconds},
        }
        start += seconds


def make_many(site: Path) -> None:
    """Ten experiments of five sizes with twenty repeats."""
    chance = random.Random(1)
    for number in range(RUNS):
        experiment, rest = divmod(number, 100)
        nodes, repeat = SIZES[rest // 20], rest % 20 + 1
        run = study_files.plan(site, f"experiment{experiment}", nodes, 1, repeat)
        run.execute()
        run.steps(step_s=0.1 / nodes * chance.gauss(1, 0.02), steps=ROWS // nodes)


def measured(name: str, site: Path) -> dict[str, list[Cost]]:
    """Each way by turns, so that a slow moment of the machine meets all of them."""
    costs: defaultdict[str, list[Cost]] = defaultdict(list)
    for repeat in range(REPEATS):
        for old in (site / "tables").glob("*"):
            old.unlink()
        if lines_of(site).exists():
            program, copied = "-c", str(site.with_suffix(".parquet"))
            costs[COPY].append(run(sys.executable, program, COPY_OF_ROWS, str(site), copied))
            costs[MEAN].append(run(sys.executable, program, MEAN_OF_LINES, str(lines_of(site))))
        costs["tables"].append(run(str(ARGOSY), "tables", str(site)))
        costs["report"].append(run(str(ARGOSY), "report", "--from-tables", str(site)))
        took = ", ".join(f"{step} {of_step[-1].seconds:.1f} s" for step, of_step in costs.items())
        say(f"{name} {repeat + 1} of {REPEATS}: {took}")
    return costs


def one_new(site: Path, repeat: int) -> Cost:
    """From a finished run to the new report."""
    added = study_files.plan(site, "experiment0", 20, 1, repeat + 1)
    added.execute()
    added.steps(step_s=0.006, steps=50)
    return run(str(ARGOSY), "report", str(site))


# Users have Argosy's modules compiled since its first command.
ENVIRONMENT = {
    name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
}


def run(*command: str) -> Cost:
    began = time.perf_counter()
    child = os.posix_spawn(
        command[0],
        command,
        ENVIRONMENT,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
        ],
    )
    _, status, usage = os.wait4(child, 0)
    if status:
        sys.exit(f"failed: {' '.join(command)}")
    return Cost(time.perf_counter() - began, usage.ru_maxrss / 1024)


def print_table(figures: dict[str, dict[str, list[Cost]]]) -> None:
    print(
        f"{'':24}{'seconds, median':>24}{'over ' + COPY:>16}{'over ' + MEAN:>20}{'memory, MB':>12}"
    )
    for study, costs in figures.items():
        for step, of_step in costs.items():
            seconds = [cost.seconds for cost in of_step]
            spread = f"{statistics.median(seconds):.2f} ({min(seconds):.2f} to {max(seconds):.2f})"
            over_copy, over_mean = (ratio(of_step, costs.get(bare)) for bare in (COPY, MEAN))
            memory = max(cost.memory_mb for cost in of_step)
            print(
                f"{study + ' ' + step:24}{spread:>24}{over_copy:>16}{over_mean:>20}{memory:>12.0f}"
            )


def ratio(ours: list[Cost], bare: list[Cost] | None) -> str:
    """The median of those of each turn, where there is something to compare with."""
    if not bare:
        return ""
    ratios = [one.seconds / other.seconds for one, other in zip(ours, bare, strict=True)]
    return f"{statistics.median(ratios):.2f}"


def as_json(figures: dict[str, dict[str, list[Cost]]]) -> dict[str, object]:
    return {
        f"{study} {step}": {
            "median_s": statistics.median(cost.seconds for cost in of_step),
            "memory_mb": max(cost.memory_mb for cost in of_step),
        }
        for study, costs in figures.items()
        for step, of_step in costs.items()
    }


def say(line: str) -> None:
    print(line, file=sys.stderr)


if __name__ == "__main__":
    main()
