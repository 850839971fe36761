"""The cluster that other tests rely on: it is what it says, it breaks as told, and it goes away."""

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cluster import Cluster, ClusterError
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


def submit(cluster: Cluster, script: str, *options: str) -> str:
    """Submit a script and return the job's id."""
    command = ("sbatch", "--parsable", "--output=/dev/null", *options)
    return cluster.run(*command, input=f"#!/bin/bash\n{script}\n").stdout.strip()


def job_state(cluster: Cluster, job: str) -> str:
    """What squeue says of a job that it still knows."""
    return cluster.run("squeue", "-h", "-t", "all", "-o", "%T", "-j", job).stdout.strip()


def commands_on(cluster: Cluster, number: int) -> list[tuple[str, ...]]:
    """The command lines of everything on a node."""
    return [process.command for process in cluster.node(number).processes()]


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


def test_a_container_may_be_started_on_a_node(cluster: Cluster) -> None:
    cluster.run(
        "srun", "-N4", "unshare", "--user", "--map-root-user", "--mount", "--pid", "-f", "true"
    )


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


def test_a_job_outlives_its_slurmd(cluster: Cluster) -> None:
    job = submit(cluster, "exec sleep 1234", "-w", "node4")
    wait_until(lambda: ("sleep", "1234") in commands_on(cluster, 4), "the job starts", 10)
    cluster.node(4).kill_slurmd()
    assert ("sleep", "1234") in commands_on(cluster, 4)
    cluster.node(4).start_slurmd()
    assert job_state(cluster, job) == "RUNNING"
    cluster.run("scancel", job)
    wait_until(lambda: ("sleep", "1234") not in commands_on(cluster, 4), "the job ends", 20)
    cluster.wait_until_idle()


def test_a_node_without_power_runs_nothing_and_comes_back(cluster: Cluster) -> None:
    node = cluster.node(3)
    node.power_off()
    assert not node.pids()
    with pytest.raises(ClusterError, match="node3 is not running"):
        node.exec("true")
    node.power_on()
    cluster.wait_until_idle()
    assert cluster.run("srun", "-w", "node3", "hostname").stdout == "node3\n"


def test_high_preempts_low_which_is_requeued(
    cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> None:
    # A short path: slurmstepd's socket lies below it, and a socket's name has 107 characters.
    folder = tmp_path_factory.mktemp("own") / "c"
    with Cluster.start(folder, nodes=1, grace_s=0) as own:
        low = submit(own, "sleep 1000", "--partition=low", "--exclusive")
        wait_until(lambda: job_state(own, low) == "RUNNING", "low runs", 10)
        own.run("srun", "--partition=high", "--exclusive", "true", timeout=40)
        assert "Restarts=1" in own.run("scontrol", "show", "job", low).stdout


def test_a_paused_controller_does_not_answer(cluster: Cluster) -> None:
    cluster.controller.pause()
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            cluster.run("squeue", timeout=2)
    finally:
        cluster.controller.resume()
    cluster.run("squeue")


def test_a_controller_that_was_killed_remembers_its_jobs(cluster: Cluster) -> None:
    job = submit(cluster, "sleep 1000", "--hold", "--job-name=remembered")
    # It forgets what is younger than the state that it saves every few seconds.
    saved = cluster.folder / "state/job_state"
    wait_until(lambda: saved.exists() and b"remembered" in saved.read_bytes(), "saved", 20)
    cluster.controller.kill()
    assert "slurmctld" not in {process.name for process in cluster.controller.processes()}
    cluster.controller.start()
    cluster.wait_until_idle()
    assert job_state(cluster, job) == "PENDING"
    cluster.run("scancel", job)


def test_nothing_can_be_submitted_without_munge(cluster: Cluster) -> None:
    cluster.munge.kill()
    try:
        # Given time, it would say so after 50 s.
        with pytest.raises(subprocess.TimeoutExpired):
            cluster.run("sbatch", "--output=/dev/null", "--wrap=true", timeout=2)
    finally:
        cluster.munge.start()
    cluster.run("srun", "true")


def test_a_job_beyond_its_partitions_limits_is_accepted(cluster: Cluster) -> None:
    # More than the partition's MaxTime. What no node has, Slurm refuses nevertheless.
    cluster.run("scancel", submit(cluster, "true", "--time=60", "--partition=short"))
    with pytest.raises(ClusterError, match="Memory specification can not be satisfied"):
        submit(cluster, "true", "--mem=1T")


def test_stopping_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "cluster"
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
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "cluster"
    monkeypatch.setattr("cluster.files.slurm_conf", lambda settings: "Unheard=of\n")
    with pytest.raises(ClusterError, match=r"(?s)Unheard.*fatal"):
        Cluster.start(folder, nodes=1)
    assert not folder.exists()


def test_a_cluster_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    folder = tmp_path / "cluster"
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
