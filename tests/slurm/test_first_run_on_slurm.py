"""A folder with a program, and a list of its packages, is measured on a cluster by two commands."""

import json
import os
from pathlib import Path

import pytest
from cluster import Cluster
from cluster_workspace import ClusterWorkspace
from workspace import BIN

from argosy_images.store.store import Store

pytestmark = [pytest.mark.slurm, pytest.mark.container, pytest.mark.timeout(300)]

PROGRAM = """
import os, socket
rank = int(os.environ["RANK"])
# At the port itself a process of the head serves torch's store.
address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]) + 1
if rank:
    while True:
        try:
            peer = socket.create_connection(address)
            break
        except OSError:
            pass
else:
    peer, _ = socket.create_server(("", address[1])).accept()
for step in range(60):
    peer.sendall(b"x")
    assert peer.recv(1) == b"x"
    if rank == 0:
        print(f"{100 + step % 3} samples/s", flush=True)
print("torch.distributed", os.uname().nodename)
"""


def test_a_first_run_on_a_cluster_needs_no_file(
    cluster: Cluster, project_store: Store, tmp_path: Path
) -> None:
    folder = tmp_path / "a repository"
    folder.mkdir()
    (folder / "train.py").write_text(PROGRAM)
    environment = {**os.environ, "ARGOSY_STORE": str(project_store.path)}
    home = ClusterWorkspace(folder, environment, cluster=cluster)
    words = (
        "--native",
        "--nodes",
        "2",
        "--throughput",
        r"(\d+) samples/s",
        "--",
        "python",
        "train.py",
    )
    status, said = home.run(BIN / "argosy", "run", "--site", "kestrel", *words)
    assert status == 2 and "or run: argosy site probe kestrel" in said, said
    assert [each.name for each in folder.iterdir()] == ["train.py"]
    status, said = home.run(BIN / "argosy", "site", "probe", "kestrel", "--wait", "2m")
    assert status == 0, said
    status, said = home.run(BIN / "argosy", "run", "--site", "kestrel", *words)
    assert status == 0, said
    assert "wrote Snakefile" in said and f"Report: {folder}/results/kestrel/report.html" in said
    run_id = "nodes2-ranks1-repeat1"
    result = json.loads((folder / "results/kestrel/train" / run_id / "result.json").read_text())
    assert len({*result["hosts"]}) == 2
    # The same by a launch line: there is nothing to do.
    words = ("--native", *words[3:6], "srun", "-N2", "-n2", "python", "train.py")
    status, said = home.run(BIN / "argosy", "run", "--site", "kestrel", *words)
    assert status == 0 and "added" not in said, said
    # In a container, with the packages that the folder lists.
    (folder / "requirements.txt").write_text("# none yet\n")
    words = (*words[1:3], "--name", "boxed", "--nodes", "2", "--", "python", "train.py")
    status, said = home.run(BIN / "argosy", "run", "--site", "kestrel", *words)
    assert status == 0 and "image: torch-cpu with requirements.txt" in said, said
    result = json.loads((folder / "results/kestrel/boxed" / run_id / "result.json").read_text())
    assert len({*result["hosts"]}) == 2
