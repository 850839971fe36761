"""How much memory the driver takes when many jobs are queued."""

import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import psutil
from cluster import Cluster
from scheduler_ways import Jobs, argosy_command

HELD = "#SBATCH --hold\n"
WATCHED_S = 30.0
STEP_S = 0.02


def measure_memory(cluster: Cluster, folder: Path, count: int) -> dict[str, float]:
    """Resident MB of `snakemake` at its start, at the first job, and when all have been queued for 30 s.

    Its start is when it reads the Snakefile: all is imported, and there is no DAG. The jobs are held,
    so that none of them ever runs.
    """
    jobs = Jobs.write(folder, count, HELD)
    with (folder / "driver.log").open("w") as log:
        process = cluster.popen(*argosy_command(jobs), cwd=folder, stdout=log, stderr=log)
        try:
            found = _watch(process, jobs)
        finally:
            cluster.run("scancel", "--me")
            process.wait()
    return found


def _watch(process: "subprocess.Popen[str]", jobs: Jobs) -> dict[str, float]:
    driver = psutil.Process(process.pid)
    _wait(process, lambda: any((run / "job.json").exists() for run in jobs.runs))
    first = _mb(driver)
    _wait(process, lambda: all((run / "job.json").exists() for run in jobs.runs))
    until = time.monotonic() + WATCHED_S
    samples, with_children = [_mb(driver)], [_family_mb(driver)]
    while time.monotonic() < until:
        time.sleep(STEP_S)
        samples.append(_mb(driver))
        with_children.append(_family_mb(driver))
    status = (jobs.folder / "status-at-start").read_text()
    start = round(int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) / 1024, 1)
    return {
        "jobs": len(jobs.names),
        "start_mb": start,
        "first_job_mb": first,
        "queued_mb": samples[-1],
        "queued_most_mb": max(samples),
        "queued_most_with_children_mb": max(with_children),
        "above_start_mb": round(max(samples) - start, 1),
    }


def _wait(process: "subprocess.Popen[str]", condition: Callable[[], bool]) -> None:
    while not condition():
        if process.poll() is not None:
            raise SystemExit("the driver has ended before its jobs were queued")
        time.sleep(0.01)


def _mb(process: psutil.Process) -> float:
    return round(float(process.memory_info().rss) / 2**20, 1)


def _family_mb(driver: psutil.Process) -> float:
    """With the children that there are at this moment: sbatch and squeue."""
    total = _mb(driver)
    for child in driver.children(recursive=True):
        try:
            total += _mb(child)
        except psutil.NoSuchProcess:
            continue
    return round(total, 1)
