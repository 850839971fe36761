"""What is measured again when something changed: by one command, and nothing else."""

import json
import shutil
from pathlib import Path

from workspace import BIN, Workspace

PROGRAM = Path(__file__).parent / "programs/waiting.py"
OPTIONS = "--compute 0.01 --interconnect 0 --network 0 --prepare 0 --fetch 0"
RUN = "nodes1-ranks1-repeat1"


def run(workspace: Workspace, steps: str, repeats: int = 1) -> tuple[int, str]:
    """Snakemake, once, with a training of so many steps."""
    workspace.configure(
        {
            "changing": {
                "runtime": "native",
                "launcher": "plain",
                "command": f"python3 /workloads/waiting.py {OPTIONS} --steps {steps}",
                "scale": {"nodes": [1], "repeats": repeats},
                "needs": {"time": "2m"},
            }
        }
    )
    return workspace.run(BIN / "snakemake", "--quiet", "host", "progress")


def jobs(workspace: Workspace) -> int:
    """How many there have been of the run."""
    content = (workspace.run_dir("changing", RUN) / "job.json").read_text()
    return len(json.loads(content)["jobs"])


def steps_measured(workspace: Workspace) -> int:
    folder = workspace.run_dir("changing", RUN)
    incarnation = json.loads((folder / "result.json").read_text())["incarnation"]
    lines = (folder / "records" / incarnation / "rank-0.jsonl").read_text().splitlines()
    return sum('"kind": "step"' in line for line in lines)


def test_one_command_measures_what_changed(workspace: Workspace) -> None:
    shutil.copy(PROGRAM, workspace.path / "containers/workloads")
    status, output = run(workspace, "none")
    assert status != 0 and "invalid int value: 'none'" in output, output
    # Mended after it had failed.
    status, output = run(workspace, "12")
    assert status == 0, output
    assert (steps_measured(workspace), jobs(workspace)) == (12, 2)
    # Changed after it was completed, and with it the report.
    status, output = run(workspace, "13")
    assert status == 0, output
    assert (steps_measured(workspace), jobs(workspace)) == (13, 3)
    # Of the site, what decides no outcome: a new script, and nothing measured again.
    site = workspace.path / "slurm/local/site.yaml"
    site.write_text(site.read_text() + "# A remark.\n")
    status, output = run(workspace, "13")
    assert status == 0, output
    assert "Planning the runs of local" in output and "Running changing" not in output
    assert jobs(workspace) == 3
    status, output = workspace.run(BIN / "snakemake", "--dry-run")
    assert status == 0 and "Nothing to be done" in output, output


def test_more_runs_leave_the_others_as_they_were_measured(workspace: Workspace) -> None:
    shutil.copy(PROGRAM, workspace.path / "containers/workloads")
    status, output = run(workspace, "12")
    assert status == 0, output
    before = {path: path.stat().st_mtime_ns for path in measured(workspace)}
    assert len(before) == 3
    status, output = run(workspace, "12", repeats=3)
    assert status == 0, output
    assert output.count("Planning ") == 1 and output.count("Running changing") == 2, output
    assert {path: path.stat().st_mtime_ns for path in measured(workspace)} == before
    # A run that somebody removed is measured again with the next that are asked for.
    shutil.rmtree(workspace.run_dir("changing", RUN))
    status, output = run(workspace, "12", repeats=4)
    assert status == 0, output
    assert output.count("Running changing") == 2, output
    assert all(path.is_file() for path in measured(workspace))


def measured(workspace: Workspace) -> list[Path]:
    """What says how the first run was measured, and what came of it."""
    folder = workspace.run_dir("changing", RUN)
    return [folder / name for name in ("run.json", "provenance.json", "result.json")]
