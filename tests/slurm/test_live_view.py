"""The live view of jobs that a real Slurm has."""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import Cluster
from cluster.processes import wait_until
from study_files import RunFiles, plan, write_json

pytestmark = pytest.mark.slurm

RUNS = """\
#!/bin/bash
mkdir -p attempts/$SLURM_JOB_ID.0 records/$SLURM_JOB_ID.0 logs/$SLURM_JOB_ID.0
echo "hello from $SLURM_NODELIST" >logs/$SLURM_JOB_ID.0/job.log
echo $SLURM_JOB_ID.0 >attempt
exec sleep 300
"""


class Site:
    """A project with runs whose jobs are tiny scripts, submitted by hand."""

    def __init__(self, cluster: Cluster, project: Path) -> None:
        self.cluster = cluster
        self.project = project
        self.jobs: list[str] = []

    def plan(self, repeat: int, nodes: int = 1) -> RunFiles:
        run = plan(self.project / "results" / "testbed", nodes=nodes, repeat=repeat)
        content = {"schema_version": 2, "site": {"name": "testbed", "scheduler": "slurm"}}
        write_json(run.path / "provenance.json", content)
        (run.path / "logs").mkdir()
        return run

    def submit(self, run: RunFiles, *options: str, script: str = RUNS) -> str:
        path = run.path / "job.sbatch"
        path.write_text(script)
        name = f"argosy-{run.path.parent.name}-{run.run_id}"
        job = self.cluster.run(
            "sbatch", "--parsable", f"--job-name={name}", f"--chdir={run.path}",
            f"--output={run.path}/logs/scheduler-%j.log", "--requeue", *options, path,
        ).stdout.strip()  # fmt: skip
        self.jobs.append(job)
        return job

    def argosy(self, *arguments: str) -> str:
        done = self.cluster.run(
            sys.executable, "-m", "argosy.cli", *arguments, cwd=self.project, timeout=60
        )
        return done.stdout

    def line(self, run: RunFiles) -> str:
        """What the table says of a run, its spaces made one."""
        name = f"{run.path.parent.name}/{run.run_id} "
        lines = self.argosy("status").splitlines()
        return " ".join(next(line for line in lines if line.startswith(name)).split()[1:])

    def wait_for(self, run: RunFiles, words: str) -> str:
        """The run's line, when it holds these words."""
        found: list[str] = []

        def seen() -> bool:
            found[:] = [self.line(run)]
            return words in found[0]

        wait_until(seen, words, 40)
        return found[0]


@pytest.fixture
def site(cluster: Cluster, tmp_path: Path) -> Iterator[Site]:
    found = Site(cluster, tmp_path)
    yield found
    if found.jobs:
        cluster.run("scancel", *found.jobs)
        cluster.wait_until_idle()


def test_running_with_its_nodes_and_pending_for_resources(site: Site) -> None:
    runs, waits, held = site.plan(1, nodes=4), site.plan(2), site.plan(3)
    first = site.submit(runs, "--nodes=4", "--exclusive", "--time=5")
    line = site.wait_for(runs, f"running {first} ")
    assert line.endswith(" node[1-4]")
    used, left = line.split()[2:4]
    assert used.endswith("s")
    assert left.startswith("4m")
    second = site.submit(waits, "--exclusive", "--time=5")
    line = site.wait_for(waits, "Resources")
    assert line.startswith(f"pending {second} Resources: waits for nodes to come free")
    third = site.submit(held, "--hold")
    assert site.line(held).startswith(f"pending {third} ! JobHeldUser: held by its user")
    totals = site.argosy("status", "results/testbed").splitlines()[0]
    assert totals.endswith("3 runs, 1 running, 2 pending; 1 stuck (!)")
    assert site.argosy("logs", "repeat1") == "hello from node[1-4]\n"


def test_what_never_starts_stands_out(site: Site) -> None:
    run = site.plan(1)
    site.submit(run, "--partition=short", "--time=60")
    assert "! PartitionTimeLimit: " in site.wait_for(run, "PartitionTimeLimit")


def test_a_requeued_job_waits_again(site: Site) -> None:
    run = site.plan(1)
    job = site.submit(run, "--time=5")
    site.wait_for(run, "running")
    site.cluster.run("scontrol", "requeue", job)
    line = site.wait_for(run, "requeued")
    assert line.startswith(f"requeued {job}.1 ")


def test_a_cancelled_job_that_wrote_no_verdict(site: Site) -> None:
    run = site.plan(1)
    job = site.submit(run, "--hold")
    site.cluster.run("scancel", job)
    assert site.wait_for(run, "cancelled").endswith(f"{job} 0s it was cancelled")


def test_watching_ends_with_the_last_run(site: Site) -> None:
    run = site.plan(1)
    verdict = {
        "schema_version": 2, "run_id": run.run_id, "attempt": "0.0", "state": "failed",
        "started": 0.0, "ended": 2.0, "seconds": 2.0, "hosts": ["node1"],
        "failure": {"node": 0, "rank": None, "cause": "no disk", "at": 1.0},
    }  # fmt: skip
    script = RUNS.replace(
        "exec sleep 300",
        f"sleep 2\ncat >attempts/$SLURM_JOB_ID.0/verdict.json <<'END'\n{json.dumps(verdict)}\nEND\nexit 1",
    )
    site.submit(run, "--time=5", script=script)
    lines = [line for line in site.argosy("status", "--watch").splitlines() if "repeat1" in line]
    assert "failed" in lines[-1]
    assert lines[-1].rstrip().endswith("node 0 (node1): no disk")


def test_the_table_comes_while_slurm_is_away(site: Site) -> None:
    run = site.plan(1)
    site.submit(run, "--time=5")
    site.wait_for(run, "running")
    site.cluster.controller.pause()
    try:
        began = time.monotonic()
        lines = site.argosy("status").splitlines()
        assert time.monotonic() - began < 25
    finally:
        site.cluster.controller.resume()
    # The job has claimed its run and has no verdict: as far as its files tell, it runs.
    assert "1 running" in lines[0]
    assert lines[1].startswith("Slurm has not answered since ")
    site.wait_for(run, "node")
