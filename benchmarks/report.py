"""`make bench-report`: large studies from records to the finished report, beside bare engines.

One run of 1,024 ranks and 10,000 steps (1.8 GB of JSON Lines), and 1,000 runs of 1,000 lines each.
Mean: an engine reads the mean time of a step by rank from the same files, and makes no table. Copy: it
writes what it finds in these files to one Parquet file, as it is.
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

import study_files

REPEATS = 3
RANKS, STEPS = 1024, 10_000
RUNS, ROWS = 1000, 1000
SIZES = (1, 2, 4, 5, 10)
ARGOSY = Path(sys.executable).with_name("argosy")
FILES = 'files = sys.argv[1] + "/*/*/records/*/rank-*.jsonl"'
DUCKDB = f"""
import sys, duckdb
{FILES}
lines = "read_json($files, filename = true)"
duckdb.execute("SET enable_progress_bar = false")
if len(sys.argv) > 2:
    query, more = f"COPY (FROM {{lines}}) TO $target (COMPRESSION zstd)", {{"target": sys.argv[2]}}
else:
    query, more = f"SELECT filename, avg(seconds) FROM {{lines}} GROUP BY ALL", {{}}
duckdb.execute(query, {{"files": files, **more}}).fetchall()
"""
POLARS = f"""
import sys, polars
{FILES}
lines = polars.scan_ndjson(files, include_file_paths="filename", infer_schema_length=1000)
if len(sys.argv) > 2:
    lines.sink_parquet(sys.argv[2], compression="zstd")
else:
    mean = polars.col("seconds").mean()
    lines.group_by("filename").agg(mean).collect(engine="streaming")
"""
BARE = {"DuckDB": DUCKDB, "polars": POLARS}


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
    """One run of many ranks, whose steps differ in every digit."""
    run = study_files.plan(site, "wide", RANKS // 8, 8)
    run.execute()
    for rank in range(RANKS):
        chance = random.Random(rank)
        header = {
            "kind": "header", "schema_version": 2, "rank": rank, "local_rank": rank % 8,
            "node": rank // 8, "host": f"host{rank // 8}", "pid": 1, "monotonic": 1000.0,
            "unix": study_files.STARTED + 2,
        }  # fmt: skip
        with run.rank_file("100.0", rank).open("w") as file:
            file.write(json.dumps(header) + "\n")
            file.writelines(step_lines(chance))


def step_lines(chance: random.Random) -> Iterator[str]:
    start = 1000.0
    for step in range(STEPS):
        seconds = 0.02 * (1 + 0.1 * chance.random())
        yield (
            f'{{"kind": "step", "step": {step}, "epoch": 0, "start": {start!r}, "seconds": {seconds!r}, '
            f'"samples": 32, "phases": {{"data": {0.1 * seconds!r}, "backward": {0.5 * seconds!r}}}}}\n'
        )
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
        copied = str(site.with_suffix(".parquet"))
        for engine, program in BARE.items():
            costs[f"mean by {engine}"].append(run(sys.executable, "-c", program, str(site)))
        for engine, program in BARE.items():
            costs[f"copy by {engine}"].append(run(sys.executable, "-c", program, str(site), copied))
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
    print(f"{'':24}{'seconds, median':>24}{'over the mean':>16}{'memory, MB':>12}")
    for study, costs in figures.items():
        for step, of_step in costs.items():
            seconds = [cost.seconds for cost in of_step]
            ratio = statistics.median(
                one.seconds / mean.seconds
                for one, mean in zip(of_step, costs["mean by DuckDB"], strict=True)
            )
            spread = f"{statistics.median(seconds):.2f} ({min(seconds):.2f} to {max(seconds):.2f})"
            memory = max(cost.memory_mb for cost in of_step)
            print(f"{study + ' ' + step:24}{spread:>24}{ratio:>16.2f}{memory:>12.0f}")


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
