"""Telemetry of a job of real agents."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agent_job import Job

from argosy.runtime.agent.settings import read_settings
from argosy.runtime.agent.telemetry.start import missing_gpus

BURN = """
import time
begin = time.process_time()
while time.process_time() < begin + 1.5:
    pass
print("samples/s: 5", flush=True)
"""
HANG = """
import builtins, threading
opened = builtins.open
def open(path, *rest, **more):
    if path == "/proc/net/dev":
        threading.Event().wait()
    return opened(path, *rest, **more)
builtins.open = open
"""
PATTERN = "samples/s: (.*)"


def lines(job: Job, node: int) -> list[Any]:
    path = job.records / f"telemetry-{node}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.slow
def test_each_node_has_a_file_in_which_the_ranks_work_shows(
    job: Callable[..., Job],
) -> None:
    job = job(BURN, nodes=2, throughput=PATTERN).start()
    assert job.wait() == [0, 0], job.outputs()
    for node in range(2):
        header, *records = lines(job, node)
        assert (header["kind"], header["schema_version"]) == ("header", 2)
        assert (header["node"], header["interval_s"]) == (node, 1.0)
        samples = [record for record in records if record["kind"] == "node"]
        assert samples[0]["cpu_s"] == 0
        # Both nodes of this job are this machine, on which both ranks work.
        assert samples[-1]["cpu_s"] >= 2.5
        assert samples[-1]["cpus"] == len(os.sched_getaffinity(0))
        assert samples[-1]["memory_used_bytes"] > 1 << 20
        assert 0 < samples[-1]["agent_cpu_s"] < 1
        assert len(samples) >= 2


def test_the_last_sample_comes_before_the_nodes_end(job: Callable[..., Job]) -> None:
    job = job(BURN, nodes=1, throughput=PATTERN).start()
    assert job.wait() == [0], job.outputs()
    header, *records = lines(job, 0)
    ended = header["monotonic"] + job.status(0)["ended"] - header["unix"]
    assert -0.2 < ended - records[-1]["at"] < 1
    assert header["unix"] - job.status(0)["started"] < 5


def test_a_reader_that_hangs_does_not_keep_the_job_from_its_end(
    job: Callable[..., Job], tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(HANG)
    job = job(BURN, nodes=1, throughput=PATTERN).start(PYTHONPATH=str(tmp_path))
    assert job.wait() == [0], job.outputs()
    status = job.status(0)
    assert status["ended"] - status["ranks"][0]["ended"] < 2
    (header,) = lines(job, 0)
    # The second, if the job took longer than its reader waits.
    assert header["unread"]["node"] in ("no answer at the end", "no answer for 5 s")


def test_a_file_that_cannot_be_made_does_not_matter(job: Callable[..., Job]) -> None:
    job = job(BURN, nodes=1, throughput=PATTERN)
    (job.records / "telemetry-0.jsonl").mkdir(parents=True)
    job.start()
    assert job.wait() == [0], job.outputs()
    assert job.status(0)["state"] == "completed"
    assert "telemetry" not in job.outputs()


WAIT = "import time; print('samples/s: 5', flush=True); time.sleep(1)"


def test_gpus_that_were_asked_for_and_are_not_seen_are_told_in_the_nodes_log(
    job: Callable[..., Job],
) -> None:
    job = job(WAIT, nodes=1, ranks_per_node=2, gpus_per_rank=2, throughput=PATTERN).start(
        CUDA_VISIBLE_DEVICES=""
    )
    assert job.wait() == [0], job.outputs()
    (line,) = [line for line in job.outputs().splitlines() if "GPU" in line]
    assert "node 0: warning: the run requested 4 GPUs per node, and telemetry sees none (" in line
    assert line.endswith("): ranks may run on CPUs, or fail")


def test_a_run_that_asked_for_no_gpu_is_told_of_none(job: Callable[..., Job]) -> None:
    job = job(WAIT, nodes=1, throughput=PATTERN).start()
    assert job.wait() == [0], job.outputs()
    assert "GPU" not in job.outputs()


@pytest.mark.parametrize(("asked", "seen", "told"), [(1, 1, None), (1, 2, None), (2, 1, "sees 1")])
def test_fewer_than_were_asked_for_are_told(
    job: Callable[..., Job], asked: int, seen: int, told: str | None
) -> None:
    job = job(WAIT, nodes=1, gpus_per_rank=asked)
    settings = read_settings(job.environment(0))
    missing = missing_gpus(settings, {"gpus": [{}] * seen, "unread": {}})
    assert missing == told if told is None else told in str(missing)
