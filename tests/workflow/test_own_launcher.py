"""A project's own launcher: ports, addresses, a command on the head node, and commands beside it."""

from typing import Any

import psutil
from workspace import Workspace

LAUNCHER = """
per: job
variables: {NODES: "{node_addresses}", WEB: "{web_port}"}
start: [env, "SERVED=http://{head_address}:{web_port}/"]
beside:
  head: ["python3 -m http.server -b {head_address} {web_port}"]
  each: [python3 containers/workloads/serve.py]
"""
# What runs on each node asks the head once, so that the nodes have met.
SERVE = """
import os, time, urllib.request
while True:
    try:
        urllib.request.urlopen("http://127.0.0.1:" + os.environ["WEB"], timeout=2).read()
    except OSError:
        pass
    time.sleep(0.1)
"""
PROGRAM = """
import os, time, urllib.request
for _ in range(100):
    try:
        urllib.request.urlopen(os.environ["SERVED"], timeout=2).read()
        break
    except OSError:
        time.sleep(0.1)
time.sleep(1)
print("nodes", os.environ["NODES"])
print("5 samples/s")
"""


def test_a_program_on_the_head_with_commands_beside_it(workspace: Workspace) -> None:
    folder = workspace.path / "containers/workloads"
    (folder / "serve.py").write_text(SERVE)
    (folder / "program.py").write_text(PROGRAM)
    launchers = workspace.path / "launchers"
    launchers.mkdir(exist_ok=True)
    (launchers / "mine.yaml").write_text(LAUNCHER)
    workspace.configure({"one": asked()})
    code, said = workspace.snakemake()
    assert code == 0, said
    run = workspace.run_dir("one", "nodes2-ranks2-repeat1")
    [log] = run.glob("logs/*/ranks/rank-*.log")
    assert "nodes 127.0.0.1,127.0.0.2" in log.read_text()
    assert len([*run.glob("logs/*/ranks/beside-*.log")]) == 3
    assert "never met" not in said
    assert not [each for each in psutil.process_iter(["cmdline"]) if _is_left(each)]

    (launchers / "mine.yaml").write_text("per: job\nbeside: {each: ['sh -c \"exit 3\"']}\n")
    code, said = workspace.snakemake()
    assert code != 0
    assert "sh, run beside the program by its launcher, ended: exit code 3" in said


def asked() -> dict[str, Any]:
    """Return the experiment."""
    return {
        "runtime": "native",
        "launcher": "mine",
        "command": "python3 /workloads/program.py",
        "throughput": "([0-9]+) samples/s",
        "scale": {"nodes": [2], "ranks_per_node": 2, "repeats": 1},
    }


def _is_left(process: psutil.Process) -> bool:
    return "containers/workloads/serve.py" in (process.info["cmdline"] or ())
