"""The cluster that other tests rely on: it is what it says, it breaks as told, and it goes away."""

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cluster import Cluster, ClusterError, missing, packages
from cluster.processes import on_network, wait_until
from cluster.programs import python_module

ECHO = Path(__file__).parent / "programs" / "echo.py"
STARTS_AND_WAITS = """
import sys, time
from pathlib import Path
from cluster import Cluster
Cluster.start(Path(sys.argv[1]), nodes=1)
print("up", flush=True)
time.sleep(1000)
"""


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cluster's folder, whose path leaves room for sockets."""
    return tmp_path_factory.mktemp("slurm") / "own"


def test_each_node_has_its_own_name_and_addresses(cluster: Cluster) -> None:
    script = "echo $(hostname) $(ip -4 -o address show scope global | awk '{print $2, $4}')"
    lines = cluster.run("srun", "-N4", "bash", "-c", script).stdout.splitlines()
    assert sorted(lines) == [f"node{k} eth0 10.77.0.{k}/24 hs0 10.88.0.{k}/24" for k in range(1, 5)]


def test_the_fast_network_is_found_by_the_suffixed_names_only(cluster: Cluster) -> None:
    names = cluster.node(2).exec("getent", "hosts", "node1", "node1i").stdout.split()
    assert names == ["10.77.0.1", "node1", "10.88.0.1", "node1i"]


def test_the_fast_network_can_be_slow_for_a_while(cluster: Cluster) -> None:
    with cluster.slow_network(delay_s=0.02, bytes_per_s=1e9):
        assert 0.04 <= round_trip_s(cluster) < 0.06
    assert round_trip_s(cluster) < 0.02


def round_trip_s(cluster: Cluster) -> float:
    """The shortest of several between two nodes, over the fast network."""
    server, client, port = cluster.node(2), cluster.node(1), "7777"
    with ThreadPoolExecutor(1) as pool:
        served = pool.submit(server.exec, sys.executable, ECHO, "serve", port)
        asked = client.exec(sys.executable, ECHO, "ask", server.fast_address, port)
        served.result()
    return float(asked.stdout)


def test_scratch_is_another_on_each_node(cluster: Cluster) -> None:
    cluster.node(1).exec("touch", cluster.scratch / "here")
    assert "here" in cluster.node(1).exec("ls", cluster.scratch).stdout
    assert "here" not in cluster.node(2).exec("ls", cluster.scratch).stdout


def test_gpus_of_a_kind_are_handed_out(cluster: Cluster) -> None:
    show = ("bash", "-c", "echo $SLURMD_NODENAME $CUDA_VISIBLE_DEVICES")
    assert cluster.run("srun", "--gres=gpu:a100:3", *show).stdout.strip() == "node1 0,1,2"
    slices = cluster.run("srun", "--gres=gpu:a100_3g.20gb:2", *show).stdout.strip()
    assert slices == "node3 0,1"


def test_commands_see_the_cluster_in_their_own_folder(cluster: Cluster, tmp_path: Path) -> None:
    script = "pwd; hostname; echo $SLURM_CONF $OWN; grep -c ^NodeName /etc/slurm/slurm.conf"
    done = cluster.run("bash", "-c", script, cwd=tmp_path, env={"OWN": "set"})
    expected = [str(tmp_path), "login", "/etc/slurm/slurm.conf set", "4"]
    assert done.stdout.splitlines() == expected


def test_a_failing_command_raises_with_what_it_said(cluster: Cluster) -> None:
    with pytest.raises(ClusterError, match="invalid partition"):
        cluster.run("sbatch", "-p", "nowhere", "--wrap=true")
    assert cluster.run("false", check=False).returncode == 1


def test_a_command_is_killed_with_the_process_that_stands_for_it(cluster: Cluster) -> None:
    started = cluster.popen("sh", "-c", "echo $$; exec sleep 1000", stdout=subprocess.PIPE)
    assert started.stdout is not None
    assert int(started.stdout.readline()) == started.pid
    started.kill()
    assert started.wait(10) == -signal.SIGKILL


def test_stopping_leaves_nothing(folder: Path) -> None:
    own = Cluster.start(folder, nodes=1)
    command = own.popen("sleep", "1000")
    network = Path(f"/proc/{own.controller.processes()[0].pid}/ns/net").stat().st_ino
    assert on_network(network)
    Cluster.at(folder).stop()
    assert command.wait(10) == -signal.SIGKILL
    assert not on_network(network)
    assert not folder.exists()
    with pytest.raises(ClusterError, match="no cluster in"):
        Cluster.at(folder)


def test_a_cluster_that_does_not_start_says_why_and_leaves_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cluster.files.slurm_conf", lambda settings: "Unheard=of\n")
    with pytest.raises(ClusterError, match=r"(?s)Unheard.*fatal"):
        Cluster.start(folder, nodes=1)
    assert not folder.exists()


def test_a_cluster_ends_with_the_process_that_started_it(folder: Path) -> None:
    package = Path(python_module("cluster")[3])
    command = [sys.executable, "-c", STARTS_AND_WAITS, str(folder)]
    starter = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={"PYTHONPATH": str(package)}
    )
    assert starter.stdout is not None
    assert starter.stdout.readline() == "up\n"
    left = Cluster.at(folder)
    starter.kill()
    starter.communicate()
    wait_until(lambda: not left.node(1).pids(), "the node ends", 10)
    left.stop()
    assert not folder.exists()


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
