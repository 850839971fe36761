"""Ports reserved for the program."""

import os
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from agent_job import ADDRESS, PYTHON

from argosy.runtime.agent.rendezvous.reserved_ports import reserve_port, watch_listener
from argosy.runtime.agent.transport.peers import Owners

# Like torch.distributed: rank 0 listens on all addresses with SO_REUSEADDR, and all ranks connect.
MEETING = """
import os, socket, threading, time
import argosy_steps
place = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])

def serve():
    with socket.create_server(("", place[1])) as store:
        # Ranks meet only when all are present.
        others = [store.accept()[0] for _ in range(size)]
        for other in others:
            other.sendall(b"met")

if rank == 0:
    time.sleep(0.5)
    server = threading.Thread(target=serve)
    server.start()
while True:
    try:
        connection = socket.create_connection(place)
        break
    except ConnectionRefusedError:
        time.sleep(0.05)
assert connection.recv(3) == b"met"
assert os.environ.get("SERVED") == "False"
print(f"rank {rank} met at {place[1]}")
with argosy_steps.Recorder().step(samples=1):
    pass
"""


def listener(address: str, port: int, family: int = socket.AF_INET) -> socket.socket:
    """Return a listening socket like a server's."""
    found = socket.socket(family)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    found.bind((address, port))
    found.listen()
    return found


@pytest.mark.parametrize(("family", "address"), [(socket.AF_INET, ""), (socket.AF_INET6, "::")])
def test_who_knows_the_port_can_listen_there_while_it_is_kept(family: int, address: str) -> None:
    with reserve_port() as reserved:
        port = reserved.getsockname()[1]
        with listener(address, port, family), socket.create_connection((ADDRESS, port), 2):
            pass
        # Again, like a restarted rank.
        with listener(address, port, family):
            pass


def test_who_asks_for_any_port_does_not_get_it() -> None:
    with reserve_port() as reserved:
        port = reserved.getsockname()[1]
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind((ADDRESS, port))
        # Nor does a connecting socket, for which the kernel chooses a port.
        with socket.create_server((ADDRESS, 0)) as server:
            low, high = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
            assert low <= port <= high
            with socket.socket() as other:
                other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                other.bind((ADDRESS, 0))
                assert other.getsockname()[1] != port
                other.connect(server.getsockname())


@pytest.mark.parametrize("host", ["", "::"])
@pytest.mark.parametrize("strange", [False, True])
def test_who_listens_at_the_port_is_one_of_ours(
    monkeypatch: pytest.MonkeyPatch, host: str, *, strange: bool
) -> None:
    said: list[str] = []
    # Below proot, the agent's own socket seems to belong to another user.
    monkeypatch.setattr(os, "getuid", lambda: 0)
    with reserve_port() as reserved, socket.create_server((ADDRESS, 0)) as own:
        port = reserved.getsockname()[1]
        if strange:
            found = Owners.owner
            monkeypatch.setattr(
                Owners,
                "owner",
                lambda self, local, remote: (
                    owner
                    if (owner := found(self, local, remote)) is None or local[1] != port
                    else 65534
                ),
            )
        places = (ADDRESS, port), (ADDRESS, own.getsockname()[1])
        watch = threading.Thread(target=watch_listener, args=[*places, said.append], daemon=True)
        watch.start()
        time.sleep(0.3)
        assert watch.is_alive(), "nobody listens yet"
        with listener(host, port, socket.AF_INET6 if host else socket.AF_INET):
            watch.join(5)
    assert not watch.is_alive()
    expected = (
        f"another user of this machine (id 65534) listens at port {port}, which is reserved for the "
        "program: run it again"
    )
    assert said == ([expected] if strange else [])


@pytest.mark.parametrize("torch", [None, "1.13.1+cu117"])
def test_all_ranks_are_told_the_same_port(job: Any, tmp_path: Path, torch: str | None) -> None:
    if torch:
        about = tmp_path / "packages" / f"torch-{torch}.dist-info" / "METADATA"
        about.parent.mkdir(parents=True)
        about.write_text(f"Metadata-Version: 2.1\nName: torch\nVersion: {torch}\n")
    variables = {
        "RANK": "{rank}",
        "WORLD_SIZE": "{size}",
        "MASTER_ADDR": "{head_address}",
        "MASTER_PORT": "{master_port}",
        # No torch can serve a store.
        "SERVED": "{agent_store}",
    }
    job = job(MEETING, nodes=2, ranks_per_node=2, rank_environment=variables)
    job.start(PYTHONPATH=str(tmp_path / "packages"))
    assert job.wait() == [0, 0], job.outputs()
    met = {line.split()[-1] for line in job.outputs().splitlines() if " met at " in line}
    assert len(met) == 1
    assert job.outputs().count(" met at ") == 4
    assert met != {"0"}
    assert job.left_nothing()


def test_a_slow_check_of_torch_delays_neither_other_nodes_nor_a_signal(
    job: Any, tmp_path: Path
) -> None:
    python, checking = tmp_path / "python3", tmp_path / "checking"
    script = f'[ "$1" != -c ] || {{ touch {checking}; sleep 60; }}; exec {PYTHON} "$@"'
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    job = job([str(python), "-V"], nodes=2, rank_environment={"SERVED": "{agent_store}"})
    job.start().until(checking.exists)
    job.agents[0].terminate()
    assert job.wait(10) == [130, 130], job.outputs()
    assert job.left_nothing()


@pytest.mark.parametrize("field", ["{rank_port}", "{rank_endpoints}"])
def test_each_rank_has_a_port_of_its_own(job: Any, field: str) -> None:
    variables = {"OWN": field}
    program = (
        "import os, argosy_steps\n"
        "print('own', os.environ['OWN'])\n"
        "with argosy_steps.Recorder().step(samples=1): pass\n"
    )
    job = job(program, nodes=2, ranks_per_node=2, rank_environment=variables, independent=True)
    assert job.start().wait() == [0, 0], job.outputs()
    told = [line.split()[-1] for line in job.outputs().splitlines() if "own " in line]
    ports = {each.rpartition(":")[2] for text in told for each in text.split(",")}
    assert (len(told), len(ports)) == (4, 4) and "0" not in ports
