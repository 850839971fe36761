"""CPU time of an agent while its ranks train."""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from agent_job import PYTHON, Job

TRAIN = """
import time
print("training", flush=True)
time.sleep(60)
"""
# The indispensable work, once a second: reading the node's counters, and writing them.
READ_COUNTERS = """
import json, time
PATHS = ("/proc/stat", "/proc/meminfo", "/proc/net/dev", "/proc/diskstats")
while True:
    texts = []
    for path in PATHS:
        with open(path) as file:
            texts.append(file.read().split())
    json.dumps(texts)
    time.sleep(1)
"""
MOST_TIMES = 12
STARTED_S = 2.0
SPAN_S = 5.0


def spent(pid: int) -> tuple[float, int]:
    """Return the CPU seconds of a process's threads, and how often they were scheduled."""
    threads = [
        (path / "schedstat").read_text().split() for path in Path(f"/proc/{pid}/task").iterdir()
    ]
    return sum(int(ran) for ran, _, _ in threads) / 1e9, sum(int(times) for _, _, times in threads)


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.parametrize("nodes", [1, 2])
def test_agents_leave_the_cores_to_the_ranks(job: Callable[..., Job], nodes: int) -> None:
    """Compare the CPU time with that of the indispensable work, since machines differ."""
    job = job(TRAIN, nodes=nodes).start()
    job.until(lambda: job.outputs().count("training") == nodes)
    with subprocess.Popen([PYTHON, "-c", READ_COUNTERS]) as least:
        time.sleep(STARTED_S)
        before = {node: spent(agent.pid) for node, agent in job.agents.items()}
        least_before, _ = spent(least.pid)
        time.sleep(SPAN_S)
        least_s = spent(least.pid)[0] - least_before
        least.kill()
    for node, agent in job.agents.items():
        ran_s, times = (
            now - then for now, then in zip(spent(agent.pid), before[node], strict=True)
        )
        # This includes the telemetry, and on the head the answers to all nodes.
        assert ran_s < MOST_TIMES * least_s
        assert times / SPAN_S < 25
