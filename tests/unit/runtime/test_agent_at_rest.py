"""What an agent takes of a core while its ranks train."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from agent_job import Job

TRAIN = """
import time
print("training", flush=True)
time.sleep(60)
"""
STARTED_S = 2.0
SPAN_S = 5.0


def spent(pid: int) -> tuple[float, int]:
    """Seconds that the threads of a process have run, and how often they began to."""
    threads = [
        (path / "schedstat").read_text().split() for path in Path(f"/proc/{pid}/task").iterdir()
    ]
    return sum(int(ran) for ran, _, _ in threads) / 1e9, sum(int(times) for _, _, times in threads)


@pytest.mark.parametrize("nodes", [1, 2])
def test_agents_leave_the_cores_to_the_ranks(make_job: Callable[..., Job], nodes: int) -> None:
    job = make_job(TRAIN, nodes=nodes).start()
    job.until(lambda: job.outputs().count("training") == nodes)
    time.sleep(STARTED_S)
    before = {node: spent(agent.pid) for node, agent in job.agents.items()}
    time.sleep(SPAN_S)
    for node, agent in job.agents.items():
        ran_s, times = (
            now - then for now, then in zip(spent(agent.pid), before[node], strict=True)
        )
        # The telemetry's share is in it, and at the head of several nodes the answers to them all.
        assert ran_s / SPAN_S < 0.005
        assert times / SPAN_S < 25
