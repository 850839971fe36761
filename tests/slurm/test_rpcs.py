"""What the driver asks of slurmctld, which all users of a cluster share."""

import json
import os
import re
import shlex
import signal
import time
from collections import Counter
from pathlib import Path

import pytest
from cluster_workspace import ClusterWorkspace
from run_files import verdict

pytestmark = [pytest.mark.alone, pytest.mark.slurm, pytest.mark.timeout(300)]
RUNS = 20
SECONDS = 6
OF_A_JOB = 3
"""sbatch's message, and two of the node when the script has ended."""
OF_A_LOOK = {
    "REQUEST_JOB_INFO",
    "REQUEST_JOB_USER_INFO",
    "REQUEST_FED_INFO",
    "REQUEST_PARTITION_INFO",
}
"""What one squeue sends: for its user's jobs (as root, for everybody's) and, for itself, for the
federation (not as root) and the partitions. All but the jobs are small."""
MOST_OF_A_LOOK = 3
OF_OTHERS = {"REQUEST_STATS_INFO", "MESSAGE_NODE_REGISTRATION_STATUS"}
"""sdiag's own, and what nodes send unasked, now and then."""


def messages(workspace: ClusterWorkspace) -> Counter[str]:
    """The messages by type that slurmctld has had since sdiag was reset, but those of others."""
    text = workspace.slurm.run("sdiag").stdout
    by_type = text.partition("by message type")[2].partition("by user")[0]
    found = re.findall(r"(\w+)\s+\(\s*\d+\) count:(\d+)", by_type)
    return Counter({name: int(n) for name, n in found if name not in OF_OTHERS})


def with_counted_calls(workspace: ClusterWorkspace) -> Path:
    """Put programs before Slurm's that note each call and then are Slurm's; the file of notes."""
    folder, notes = workspace.path / "counted", workspace.path / "calls"
    folder.mkdir()
    for name in ("sbatch", "squeue", "scontrol", "sacct"):
        program = folder / name
        program.write_text(
            f'#!/bin/bash\necho {name} >>{shlex.quote(str(notes))}\nPATH=${{PATH#*:}} exec {name} "$@"\n'
        )
        program.chmod(0o755)
    workspace.environment["PATH"] = f"{folder}:{os.environ['PATH']}"
    return notes


def prepare(workspace: ClusterWorkspace, more: str = "") -> None:
    """A workflow of short jobs, each of which leaves a verdict; `more` are lines of their scripts."""
    said = json.dumps(verdict().content())
    for number in range(RUNS):
        run = workspace.run_dir("short", f"run{number}")
        run.mkdir(parents=True)
        (run / "job.sbatch").write_text(
            f"#!/bin/bash\n#SBATCH --job-name=argosy-short-{run.name}\n#SBATCH --output=/dev/null\n"
            f"{more}"
            'attempt="attempts/$SLURM_JOB_ID.0"\nmkdir -p "$attempt"\n'
            f"echo '{said}' | tee result.json >\"$attempt/verdict.json\"\n"
        )
    (workspace.path / "Snakefile").write_text(
        f"""
rule all:
    input:
        expand("results/testbed/short/run{{n}}/result.json", n=range({RUNS})),

rule run:
    input:
        script="results/testbed/short/{{run}}/job.sbatch",
    output:
        result="results/testbed/short/{{run}}/result.json",
    resources:
        scheduler="slurm",
    shell:
        "bash {{input.script}}"
"""
    )


def test_a_job_costs_three_messages_and_a_look_at_all_jobs_the_same(
    workspace: ClusterWorkspace,
) -> None:
    notes = with_counted_calls(workspace)
    prepare(workspace)
    workspace.slurm.run("sdiag", "--reset")
    driver = workspace.drive()
    output = workspace.end(driver)
    assert driver.returncode == 0, output
    found, calls = messages(workspace), Counter(notes.read_text().split())

    assert set(calls) == {"sbatch", "squeue"}
    assert calls["sbatch"] == RUNS
    asked = {name: n for name, n in found.items() if name in OF_A_LOOK}
    assert len(asked) <= MOST_OF_A_LOOK
    assert set(asked.values()) == {calls["squeue"]}
    assert found.total() - sum(asked.values()) <= OF_A_JOB * RUNS


def test_queued_jobs_cost_one_look_a_second(workspace: ClusterWorkspace) -> None:
    """However many they are, and however often Snakemake asks for them."""
    notes = with_counted_calls(workspace)
    prepare(workspace, "#SBATCH --hold\n")
    driver = workspace.drive()
    files = [workspace.run_dir("short", f"run{n}") / "job.json" for n in range(RUNS)]
    workspace.wait_for(lambda: all(path.exists() for path in files), "all jobs submitted")
    time.sleep(1)  # what is under way
    before = Counter(notes.read_text().split())
    workspace.slurm.run("sdiag", "--reset")
    time.sleep(SECONDS)
    found, calls = messages(workspace), Counter(notes.read_text().split()) - before
    driver.send_signal(signal.SIGINT)
    output = workspace.end(driver)

    # Nobody but the user can end this wait.
    assert (
        "waiting will not help jobs" in output and "release it with `scontrol release`" in output
    ), output
    assert set(calls) == {"squeue"}
    # slurmctld that answers late is asked less often.
    assert 1 <= calls["squeue"] <= SECONDS + 1
    assert found.total() <= MOST_OF_A_LOOK * (calls["squeue"] + 1)
