"""Slurm where the machine has none: its packages, unpacked by an ordinary user."""

from pathlib import Path

import pytest
from cluster import Cluster, missing, packages


@pytest.mark.slurm
@pytest.mark.thorough
def test_a_cluster_runs_on_unpacked_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packages, "are_installed", lambda: False)
    monkeypatch.setattr(packages, "_FOLDER", tmp_path / "packages")
    assert missing() is None
    with Cluster.start(tmp_path / "cluster", nodes=2, accounting=True) as cluster:
        # Debian's own link goes by /etc/alternatives.
        assert cluster.run("readlink", "/usr/sbin/slurmd").stdout == "slurmd-wlm\n"
        said = cluster.run("srun", "--nodes=2", "--label", "hostname").stdout
        assert sorted(said.splitlines()) == ["0: node1", "1: node2"]
        assert "project" in cluster.run("sacctmgr", "list", "account").stdout
