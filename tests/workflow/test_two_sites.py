"""Two sites of one project, driven at the same time."""

import shutil
from pathlib import Path

from workspace import BIN, Workspace

PROGRAM = Path(__file__).parent / "programs/waiting.py"
OPTIONS = "--compute 0.2 --interconnect 0 --network 0 --prepare 0 --fetch 0 --steps 20"
RUN = "nodes1-ranks1-repeat1"


def test_two_sites_are_driven_at_once_and_one_site_once(workspace: Workspace) -> None:
    shutil.copy(PROGRAM, workspace.path / "containers/workloads")
    shutil.copytree(workspace.path / "slurm/local", workspace.path / "slurm/other")
    program = {
        "runtime": "native",
        "launcher": "plain",
        "command": f"python3 /workloads/waiting.py {OPTIONS}",
        "scale": {"nodes": [1], "repeats": 1},
    }
    workspace.configure({"waiting": program})
    command = [BIN / "snakemake", "--quiet", "host"]
    first = workspace.start(*command)
    second = workspace.start(*command, "--config", "site=other")
    for driver in (first, second):
        while "Running waiting" not in (line := str(driver.stdout and driver.stdout.readline())):
            assert line, "it ended before it had run anything"
    status, output = workspace.run(*command)
    assert status != 0
    said = f"another snakemake manages the runs of local (process {first.pid} on "
    assert said in output, output
    for driver in (first, second):
        output, _ = driver.communicate()
        assert driver.returncode == 0, output
    for site in ("local", "other"):
        assert (workspace.path / "results" / site / "waiting" / RUN / "result.json").is_file()
