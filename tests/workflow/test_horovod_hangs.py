"""A deadlock between ranks of real Horovod."""

import json
import re
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
import step_files
from workspace import BIN, Workspace

pytestmark = [pytest.mark.thorough, pytest.mark.container, pytest.mark.slow]
RUN = "nodes2-ranks1-repeat1"
PROGRAM = Path(__file__).parent / "programs" / "skipping.py"


@pytest.fixture
def hanging(workspace: Workspace, digits: dict[str, Any]) -> Workspace:
    """An experiment in which rank 1 leaves out an allreduce."""
    shutil.copy(PROGRAM, workspace.path / "containers/workloads")
    digits["command"] = "python3 /workloads/skipping.py"
    digits["scale"]["nodes"] = [2]
    workspace.configure({"hanging": digits})
    return workspace


def test_a_left_out_allreduce_is_found_and_named(hanging: Workspace) -> None:
    run_dir = hanging.run_dir("hanging", RUN)
    snakemake = hanging.start(BIN / "snakemake", f"results/local/hanging/{RUN}/result.json")
    until_it_hangs(run_dir)
    _, table = hanging.run(BIN / "argosy", "status")
    assert re.search(r"running .* \d\d +last step \d\ds ago", table), table
    # A minute of silence, and what a busy machine adds; faults/test_hangs.py holds the promise.
    output, _ = snakemake.communicate(timeout=120)
    assert snakemake.returncode != 0
    skipped, next_step = lines_of("flag"), lines_of("gradient")
    cause = (
        rf"hang: no step, collective or output for \d+ s: "
        rf"rank 0 waits in allreduce \(skipping.py:{skipped}\); "
        rf"rank 1 waits in allreduce \(skipping.py:{next_step}\); Horovod: "
        r"rank 0 has not submitted allreduce.gradient; rank 1 has not submitted allreduce.flag"
    )
    assert re.search(cause, output), output
    assert not (run_dir / "result.json").exists()
    (verdict,) = run_dir.glob("attempts/*/verdict.json")
    failure = json.loads(verdict.read_text())["failure"]
    assert (failure["node"], failure["rank"]) == (None, None)
    assert re.fullmatch(cause, failure["cause"])
    logs = run_dir / "logs" / verdict.parent.name
    said = (logs / "ranks/rank-0.log").read_text()
    # Horovod's own check speaks before, and names who is missing.
    assert re.search(r"waiting for remainder of ranks for more than 12 seconds", said)
    assert re.search(r"\n1: \[allreduce.flag\]\n", said)
    for rank, line in ((0, skipped), (1, next_step)):
        stacks = (
            (logs / f"ranks/rank-{rank}.log").read_text().partition("argosy: Python stacks of ")[2]
        )
        assert re.search(rf'"/workloads/skipping.py", line {line} in <module>', stacks)
    # The recorder writes once a second; what it had not written yet is lost.
    steps = run_dir / "records" / verdict.parent.name / "rank-0.steps"
    assert 15 < step_files.count(steps) <= 40


def until_it_hangs(run_dir: Path) -> None:
    """Until nothing was recorded for 16 s: the status says so from 15 s on, and the run ends after 25 s."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        for records in run_dir.glob("records/*/rank-0.steps"):
            if step_files.count(records) and time.time() - records.stat().st_mtime > 16:
                return
        time.sleep(0.1)
    raise AssertionError("the ranks do not come to the place where they hang")


def lines_of(name: str) -> int:
    """The line of the allreduce of this name in the program."""
    lines = PROGRAM.read_text().splitlines()
    (number,) = (n for n, line in enumerate(lines, 1) if f'name="{name}"' in line)
    return number
