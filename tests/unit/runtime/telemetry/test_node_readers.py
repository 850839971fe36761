"""Readers of a node's counters, on files as kernels write them."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from argosy.runtime.agent.telemetry.node import (
    CpuEnergy,
    Memory,
    OwnCpu,
    disk_traffic,
    job_cpu,
    network_traffic,
    node_cpu,
)
from argosy.runtime.agent.telemetry.source import NodeSource, Reader, UnreadError, why

Write = Callable[[str, str], None]

STAT = """cpu  300 0 300 9000 0 0 0 0 0 0
cpu0 {user} 10 50 4000 77 3 2 5 20 0
cpu1 100 0 50 4000 0 0 0 0 0 0
cpu10 999999 0 0 0 0 0 0 0 0 0
intr 12345 0 0
"""
MEMINFO = "MemTotal: 1000 kB\nMemFree: 10 kB\nMemAvailable: 600 kB\n"
NET_DEV = """Inter-|   Receive                                         |  Transmit
 face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop fifo
    lo: {lo} 1 0 0 0 0 0 0 {lo} 1 0 0 0 0 0 0
  eth0:{eth0} 1 0 0 0 0 0 0 7000 1 0 0 0 0 0 0
 bond0: {lo} 1 0 0 0 0 0 0 9 1 0 0 0 0 0 0
   ib0: {ib0} 1 0 0 0 0 0 0 50 1 0 0 0 0 0 0
"""
DISKSTATS = """   7       0 loop0 1 0 {other} 0 1 0 {other} 0 0 0 0
 253       0 dm-0 1 0 {other} 0 1 0 {other} 0 0 0 0
 259       0 nvme0n1 9 0 {read} 3 9 0 {written} 4 0 1 2 0 0 0 0
 259       1 nvme0n1p1 9 0 {read} 3 9 0 {written} 4 0 1 2 0 0 0 0
 259       2 nvme0c1n1 9 0 {read} 3 9 0 {written} 4 0 1 2 0 0 0 0
"""


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(path: str, text: str) -> None:
        target = tmp_path / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    return write


@pytest.fixture
def proc(tmp_path: Path) -> str:
    return str(tmp_path / "proc")


@pytest.fixture
def sys(tmp_path: Path) -> str:
    return str(tmp_path / "sys")


def recorded(reader: Reader) -> Callable[[], dict[str, Any]]:
    """Return a function that samples the reader and returns what is recorded of its values."""
    source = NodeSource({("value",): reader}, dict)
    return lambda: {k: v for k, v in source.sample()[0].items() if k not in ("kind", "at")}


def refusal(reader: Reader) -> str:
    with pytest.raises((OSError, UnreadError)) as problem:
        reader()
    return why(problem.value)


def in_group(write: Write, path: str = "/slurm/job_7/step_0/task_0") -> None:
    write("proc/self/cgroup", f"1:name=systemd:/else\n0::{path}\n")
    write("sys/fs/cgroup/cgroup.controllers", "cpu memory\n")


# ---- CPUs


def test_busy_time_is_of_the_agents_cpus_alone(write: Write, proc: str) -> None:
    write("proc/stat", STAT.format(user=100))
    read = recorded(partial(node_cpu, {0, 1}, proc))
    assert read() == {"cpu_s": 0, "cpus": 2}
    write("proc/stat", STAT.format(user=350))
    assert read() == {"cpu_s": 2.5, "cpus": 2}


def test_waiting_for_disks_and_time_stolen_are_not_busy(write: Write, proc: str) -> None:
    text = STAT.format(user=100)
    write("proc/stat", text)
    read = recorded(partial(node_cpu, {0}, proc))
    read()
    write("proc/stat", text.replace(" 4000 77 3 2 5 ", " 5000 1077 3 2 1005 "))
    assert read()["cpu_s"] == 0


def test_cpus_that_are_not_there_are_said_to_be(write: Write, proc: str) -> None:
    assert refusal(partial(node_cpu, {0}, proc)) == f"no such file or directory: {proc}/stat"
    write("proc/stat", STAT.format(user=1))
    assert refusal(partial(node_cpu, {5}, proc)) == f"none of the agent's CPUs is in {proc}/stat"


def test_the_jobs_own_time_is_that_of_its_control_group(write: Write, proc: str, sys: str) -> None:
    in_group(write)
    path = "sys/fs/cgroup/slurm/job_7/step_0/task_0/cpu.stat"
    write(path, "usage_usec 5000000\nuser_usec 4000000\n")
    read = recorded(partial(job_cpu, proc, sys))
    assert read() == {"job_cpu_s": 0}
    write(path, "usage_usec 7500000\nuser_usec 4000000\n")
    assert read() == {"job_cpu_s": 2.5}


def test_a_group_of_the_whole_node_is_no_jobs(write: Write, proc: str, sys: str) -> None:
    in_group(write, "/")
    write("sys/fs/cgroup/cpu.stat", "usage_usec 5000000\n")
    assert refusal(partial(job_cpu, proc, sys)) == "the agent sees no control group of its own"


def test_old_control_groups_are_named(write: Write, proc: str, sys: str) -> None:
    write("proc/self/cgroup", "4:memory:/slurm/job_7\n0::/\n")
    said = f"there are no control groups of version 2 at {sys}/fs/cgroup"
    assert refusal(partial(job_cpu, proc, sys)) == said


def test_what_telemetry_costs_grows_with_what_it_does() -> None:
    reader = OwnCpu()
    before = reader.read()["agent_cpu_s"]
    sum(range(300_000))
    assert reader.read()["agent_cpu_s"] > before > 0


# ---- memory


def test_memory_is_the_nodes_without_a_limit(write: Write, proc: str, sys: str) -> None:
    write("proc/meminfo", MEMINFO)
    in_group(write)
    write("sys/fs/cgroup/slurm/job_7/memory.max", "max\n")
    reader = Memory(proc, sys)
    assert reader.read() == {"memory_used_bytes": 400 * 1024}
    assert reader.of == "node"


def test_memory_is_that_of_the_nearest_group_with_a_limit(
    write: Write, proc: str, sys: str
) -> None:
    in_group(write)
    for group, limit, current in (
        ("slurm", "9999", "77"),
        ("slurm/job_7", "5000", "66"),
        ("slurm/job_7/step_0", "max", "55"),
    ):
        write(f"sys/fs/cgroup/{group}/memory.max", f"{limit}\n")
        write(f"sys/fs/cgroup/{group}/memory.current", f"{current}\n")
    reader = Memory(proc, sys)
    assert reader.read() == {"memory_used_bytes": 66}
    assert reader.of == "cgroup"


def test_memory_of_an_odd_kernel_is_not_guessed(write: Write, proc: str, sys: str) -> None:
    write("proc/meminfo", "MemTotal: 1000 kB\n")
    assert refusal(Memory(proc, sys).read) == f"no MemTotal and MemAvailable in {proc}/meminfo"


# ---- network


def devices(write: Write, *names: str) -> None:
    for name in names:
        write(f"sys/class/net/{name}/device/vendor", "0x15b3\n")
        write(f"sys/class/net/{name}/type", "32\n" if name.startswith("ib") else "1\n")


def test_only_interfaces_with_a_device_count(write: Write, proc: str, sys: str) -> None:
    devices(write, "eth0")
    write("proc/net/dev", NET_DEV.format(lo=5, eth0=100, ib0=0))
    read = recorded(partial(network_traffic, proc, sys))
    assert set(read().values()) == {0}
    write("proc/net/dev", NET_DEV.format(lo=999, eth0=175, ib0=999).replace("7000", "7001"))
    assert read() == {"network_received_bytes": 75, "network_sent_bytes": 1}


def test_infiniband_counts_words_and_its_interfaces_not_again(
    write: Write, proc: str, sys: str
) -> None:
    devices(write, "eth0", "ib0")
    port = "sys/class/infiniband/mlx5_0/ports/1/counters"
    write(f"{port}/port_rcv_data", "1000\n")
    write(f"{port}/port_xmit_data", "2000\n")
    write("proc/net/dev", NET_DEV.format(lo=5, eth0=100, ib0=0))
    read = recorded(partial(network_traffic, proc, sys))
    read()
    write(f"{port}/port_rcv_data", "1250\n")
    write("proc/net/dev", NET_DEV.format(lo=5, eth0=101, ib0=1000))
    assert read() == {"network_received_bytes": 1001, "network_sent_bytes": 0}


def test_ip_over_infiniband_counts_where_ports_do_not(write: Write, proc: str, sys: str) -> None:
    devices(write, "ib0")
    write("proc/net/dev", NET_DEV.format(lo=5, eth0=100, ib0=0))
    read = recorded(partial(network_traffic, proc, sys))
    read()
    write("proc/net/dev", NET_DEV.format(lo=5, eth0=101, ib0=1000))
    assert read()["network_received_bytes"] == 1000


def test_a_container_with_a_network_of_its_own_has_no_numbers(
    write: Write, proc: str, sys: str
) -> None:
    write("proc/net/dev", NET_DEV.format(lo=5, eth0=100, ib0=0))
    assert refusal(partial(network_traffic, proc, sys)).startswith(
        f"no interface in {proc}/net/dev has a device"
    )


# ---- disks


def test_whole_disks_count_and_each_once(write: Write, proc: str, sys: str) -> None:
    for name in ("nvme0n1", "nvme0c1n1"):
        write(f"sys/block/{name}/device/model", "disk\n")
    write("sys/block/dm-0/dm/name", "root\n")
    write("proc/diskstats", DISKSTATS.format(read=100, written=40, other=7))
    read = recorded(partial(disk_traffic, proc, sys))
    assert read() == {"disk_read_bytes": 0, "disk_written_bytes": 0}
    write("proc/diskstats", DISKSTATS.format(read=110, written=41, other=9999))
    assert read() == {"disk_read_bytes": 5120, "disk_written_bytes": 512}


def test_a_node_without_disks_says_so(write: Write, proc: str, sys: str) -> None:
    write("proc/diskstats", DISKSTATS.format(read=100, written=40, other=7))
    assert (
        refusal(partial(disk_traffic, proc, sys)) == f"no disk of this node is in {proc}/diskstats"
    )


# ---- energy


def zone(write: Write, number: str, name: str, energy_uj: int) -> None:
    folder = f"sys/class/powercap/intel-rapl:{number}"
    write(f"{folder}/name", f"{name}\n")
    write(f"{folder}/energy_uj", f"{energy_uj}\n")
    write(f"{folder}/max_energy_range_uj", "262143328850\n")


def test_energy_is_that_of_packages_over_a_wraparound(write: Write, sys: str) -> None:
    zone(write, "0", "package-0", 262_143_000_000)
    zone(write, "1", "package-1", 5_000_000)
    zone(write, "0:0", "core", 1)
    zone(write, "2", "psys", 1)
    reader = CpuEnergy(sys)
    assert reader.read() == {"cpu_energy_j": 0}
    zone(write, "0", "package-0", 671_150)
    zone(write, "1", "package-1", 8_000_000)
    zone(write, "0:0", "core", 99_000_000)
    zone(write, "2", "psys", 99_000_000)
    assert reader.read() == {"cpu_energy_j": pytest.approx(4.0)}


def test_energy_that_the_kernel_does_not_show_is_said_to_be(sys: str) -> None:
    assert refusal(CpuEnergy(sys).read).startswith("the kernel reports no processor energy: ")


def test_energy_that_only_root_may_read_is_said_to_be(
    write: Write, sys: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    zone(write, "0", "package-0", 1)
    counter = f"{sys}/class/powercap/intel-rapl:0/energy_uj"

    def refuse(path: str) -> str:
        if path == counter:
            raise PermissionError(13, "Permission denied", path)
        return Path(path).read_text()

    # The tests may run as root, who can read every file.
    monkeypatch.setattr("argosy.runtime.agent.telemetry.node.read_text", refuse)
    assert refusal(CpuEnergy(sys).read) == f"permission denied: {counter}"
