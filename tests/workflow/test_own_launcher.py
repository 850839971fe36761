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
  each: ["python3 /workloads/serve.py {rank_port}"]
"""
# What runs on each node asks the head once, so that the nodes have met.
SERVE = """
import os, sys, time, urllib.request
print("own port", sys.argv[1], flush=True)
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
    words = (word for each in psutil.process_iter() for word in _words(each))
    assert not [word for word in words if str(folder) in word]
    # Each node has a port of its own.
    texts = [log.read_text() for log in run.glob("logs/*/ranks/beside-*.log")]
    ports = {text for text in texts if text.startswith("own port ")}
    assert len(ports) == 2 and "own port 0\n" not in ports

    # The files of its commands are part of the program.
    (folder / "serve.py").write_text(f"{SERVE}# changed\n")
    code, said = workspace.snakemake("-n")
    assert (code, "Measured again, since /workloads/serve.py has changed" in said) == (0, True), (
        said
    )
    (launchers / "mine.yaml").write_text(
        "per: job\nbeside: {each: [python3 /workloads/sreve.py]}\n"
    )
    code, said = workspace.snakemake("-n")
    assert code != 0
    assert "experiments.one.launcher: /workloads/sreve.py: no such file or folder" in said

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


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []
