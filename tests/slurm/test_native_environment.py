"""Without a container ranks find on a real cluster what they would find in one."""

import pytest
from cluster_workspace import ClusterWorkspace

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(200)]

COMMAND = (
    """bash -c 'env >"$ARGOSY_OUTPUT/env-$RANK"; test -f config/config.yaml && echo 5 samples/s'"""
)


def test_ranks_see_themselves_and_nothing_of_slurm(workspace: ClusterWorkspace) -> None:
    workspace.count(
        [2],
        command=COMMAND,
        throughput="(.*) samples/s",
        scale={"nodes": [2], "ranks_per_node": 2, "repeats": 1},
        resources={"memory_per_rank": "50M"},
    )
    output = workspace.end(workspace.drive())
    folder = workspace.run_dir("count", "nodes2-ranks2-repeat1") / "output"
    found = [path.read_text().splitlines() for path in sorted(folder.glob("env-*"))]
    assert len(found) == 4, output
    for rank, lines in enumerate(found):
        names = {line.partition("=")[0] for line in lines}
        assert not [name for name in names if name.startswith(("SLURM", "PMI", "SRUN"))]
        assert {f"RANK={rank}", "WORLD_SIZE=4", f"LOCAL_RANK={rank % 2}"} <= {*lines}
        assert {"PATH", "HOME", "TMPDIR"} <= names
    # A command's relative paths begin in the project, as on this machine.
    assert workspace.result("nodes2-ranks2-repeat1")["state"] == "completed"
