"""The last lines of a failed snakemake are about this call only."""

import os
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest
from workspace import BIN, Workspace

RUN = "nodes1-ranks1-repeat1"
LAST_OF_SNAKEMAKE = "At least one job did not complete successfully."


def study(command: str, repeats: int = 1) -> dict[str, Any]:
    return {
        "quick": {
            "runtime": "native",
            "launcher": "plain",
            "command": command,
            "throughput": "rate ([0-9]+)",
            "scale": {"nodes": [1], "repeats": repeats},
            "resources": {"time": "2m"},
        }
    }


def test_a_rule_that_failed_is_told_and_no_older_job(
    make_workspace: Callable[[str], Workspace],
) -> None:
    workspace = make_workspace("planning fails")
    workspace.configure(study("bash -c 'echo the older cause >&2; exit 3'"))
    status, output = workspace.snakemake()
    assert status != 0 and f"  quick/{RUN}: rank 0" in output, output
    folder = workspace.run_dir("quick", RUN)
    workspace.configure(study("bash -c 'echo rate 5'"))
    folder.chmod(0o500)
    try:
        status, output = workspace.snakemake()
    finally:
        folder.chmod(0o700)
    end = output.partition(LAST_OF_SNAKEMAKE)[2]
    assert status != 0 and "Traceback" not in output, output
    assert "The rule plan_runs failed: " in end and "Permission denied" in end, output
    assert "see logs/local/plan.log" in end, output
    assert "the older cause" not in end and "exit code 3" not in end, output
    # A successful run leaves no such lines.
    status, output = workspace.snakemake()
    assert status == 0, output


def test_a_study_of_which_nothing_ran_has_no_report(
    make_workspace: Callable[[str], Workspace],
) -> None:
    workspace = make_workspace("nothing ran")
    workspace.configure(study("bash -c 'echo rate 5'"))
    folder = workspace.run_dir("quick", RUN)
    folder.mkdir(parents=True)
    # Snakemake removes folders without a file.
    (folder / "mine").touch()
    folder.chmod(0o500)
    try:
        status, output = workspace.snakemake()
    finally:
        folder.chmod(0o700)
    end = output.partition(LAST_OF_SNAKEMAKE)[2]
    assert status != 0 and "The rule plan_runs failed: " in end, output
    assert not (workspace.path / "results/local/report.html").exists()


@pytest.mark.parametrize("seconds", [0.1, 0.5, 1.5])
def test_ctrl_c_twice_leaves_no_traceback(
    make_workspace: Callable[[str], Workspace], seconds: float
) -> None:
    workspace = make_workspace("interrupted")
    workspace.configure(study("bash -c 'echo rate 5; sleep 60'"))
    process = workspace.start(BIN / "snakemake", start_new_session=True)
    assert process.stdout
    while "Running quick" not in (line := process.stdout.readline()):
        assert line, "it ended before it had run anything"
    time.sleep(3)
    os.killpg(process.pid, signal.SIGINT)
    time.sleep(seconds)
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode != 0
    assert "Traceback" not in output and "Exception ignored" not in output, output


def test_a_run_that_cannot_be_submitted_is_told_why(
    make_workspace: Callable[[str], Workspace],
) -> None:
    workspace = make_workspace("refused")
    workspace.configure(study("bash -c 'echo the older cause >&2; exit 3'"))
    status, output = workspace.snakemake()
    assert status != 0 and "the older cause" in output, output
    jobs = workspace.run_dir("quick", RUN) / "job.json"
    jobs.write_text("{")
    # Older than the tolerated difference of clocks.
    for path in (jobs, *jobs.parent.glob("attempts/*/verdict.json")):
        os.utime(path, (1e9, 1e9))
    status, output = workspace.snakemake()
    end = output.partition(LAST_OF_SNAKEMAKE)[2]
    assert status != 0 and "Traceback" not in output, output
    assert "1 run failed:" in end and "job.json" in end, output
    assert "the older cause" not in end and "exit code 3" not in end, output
