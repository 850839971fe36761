"""torchrun within a rank: its workers get the warning, and the run continues from its checkpoint."""

import pytest
from workspace import Workspace

pytestmark = [pytest.mark.container, pytest.mark.thorough]

PROGRAM = """
import json, os, pathlib, signal, sys, time

def leave(number, frame):
    if os.environ["RANK"] == "0":
        folder = pathlib.Path(os.environ["ARGOSY_CHECKPOINTS"]) / "step-000000007"
        folder.mkdir(parents=True)
        run = json.load(open(os.environ["ARGOSY_RUN_DIR"] + "/run.json"))
        import hashlib
        plan = hashlib.sha256(open(os.environ["ARGOSY_RUN_DIR"] + "/run.json", "rb").read()).hexdigest()
        content = {"schema_version": 2, "attempt": os.environ["ARGOSY_ATTEMPT"], "step": 7, "plan": plan}
        (folder / "checkpoint.json").write_text(json.dumps({**content, "unix": time.time()}))
    else:
        time.sleep(1)
    sys.exit(75)

signal.signal(signal.SIGUSR1, leave)
print("rate: 5.0", flush=True)
if not os.environ.get("ARGOSY_RESTORED"):
    time.sleep(100)
"""


def test_workers_of_torchrun_are_warned(workspace: Workspace) -> None:
    (workspace.path / "containers/workloads/leaves.py").write_text(PROGRAM)
    torchrun = (
        "cd /tmp; torchrun --nproc-per-node 2 --master-addr 127.0.0.1 /workloads/leaves.py; exit $?"
    )
    workspace.configure(
        {
            "warned": {
                "image": "torch-cpu",
                "launcher": "plain",
                "command": f"bash -c '{torchrun}'",
                "throughput": "rate: ([0-9.]+)",
                "checkpoints": {"warning": "40s"},
                "scale": {"nodes": [1], "repeats": 1},
                "resources": {"time": "1m"},
            }
        }
    )
    status, output = workspace.snakemake()
    assert "interrupted" in output, output
    status, output = workspace.snakemake()
    assert status == 0, output
