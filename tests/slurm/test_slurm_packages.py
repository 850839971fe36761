"""Slurm where the machine has none: its packages, unpacked by an ordinary user."""

import pytest
from cluster import Cluster, missing, packages


@pytest.mark.slurm
@pytest.mark.thorough
def test_a_cluster_runs_on_unpacked_packages(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("slurm")
    monkeypatch.setattr(packages, "are_installed", lambda: False)
    monkeypatch.setattr(packages, "_FOLDER", folder / "packages")
    assert missing() is None
    with Cluster.start(folder / "cluster", nodes=2, accounting=True) as cluster:
        # Debian's own link goes by /etc/alternatives.
        assert cluster.run("readlink", "/usr/sbin/slurmd").stdout == "slurmd-wlm\n"
        said = cluster.run("srun", "--nodes=2", "--label", "hostname").stdout
        assert sorted(said.splitlines()) == ["0: node1", "1: node2"]
        assert "project" in cluster.run("sacctmgr", "list", "account").stdout
