"""Torch's store, served by a process of the head, with real torch, real ranks and another user."""

import errno
import os
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agent_job import ADDRESS, PYTHON, Job, another_user

from argosy.jobs.launchers import shipped
from argosy.runtime.agent.rendezvous.reserved_ports import listen_alone
from argosy.runtime.contract.attempt import Attempt
from argosy.runtime.contract.placeholders import as_format
from argosy.runtime.meetings import groups_of_ranks
from argosy_images.store.store import Store

pytestmark = pytest.mark.container

# Try to bind and listen with each option that lets sockets share a port.
TAKE = """
import itertools, socket, sys
port = int(sys.argv[1])
for family, address in ((2, ""), (2, "127.0.0.1"), (2, "127.0.0.2"), (10, "::"), (10, "::1")):
    for again, shared in itertools.product((0, 1), repeat=2):
        other = socket.socket(family)
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, again)
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, shared)
        try:
            other.bind((address, port))
            other.listen()
        except OSError:
            continue
        sys.exit(f"taken: {family} {address} {again} {shared}")
"""
TRAINING = """
import os, time
import argosy_steps
import torch
import torch.distributed as dist
print("port", os.environ["MASTER_PORT"], os.environ["TORCHELASTIC_USE_AGENT_STORE"])
while not os.path.exists(os.environ["ARGOSY_RUN_DIR"] + "/go"):
    time.sleep(0.05)
%s
total = torch.ones(1)
dist.all_reduce(total)
print("total", int(total))
with argosy_steps.Recorder().step(samples=1):
    pass
while not os.path.exists(os.environ["ARGOSY_RUN_DIR"] + "/end"):
    time.sleep(0.05)
"""
TOGETHER = 'dist.init_process_group("gloo")'
ALONE = 'dist.init_process_group("gloo", rank=0, world_size=1)'


@pytest.fixture
def torch_job(
    job: Callable[..., Job], project_store: Store, torch_digest: str
) -> Callable[[str], Job]:
    """Return a function that starts two nodes of two ranks with the image's torch."""
    [packages] = project_store.root(torch_digest).glob("opt/venv/lib/python3*/site-packages")
    variables = {name: as_format(text) for name, text in shipped()["torch"].variables.items()}

    def start(meet: str) -> Job:
        made = job(TRAINING % meet, ranks_per_node=2, rank_environment=variables, throughput=None)
        return made.start(PYTHONPATH=str(packages), OMP_NUM_THREADS="1")

    return start


def port_of(job: Job) -> int:
    """Return the port that all ranks received."""
    job.until(lambda: job.outputs().count("] port ") == 4, timeout=60)
    [told] = {line.split(" port ")[1] for line in job.outputs().splitlines() if "] port " in line}
    port, served = told.split()
    assert served == "True"
    return int(port)


def try_to_take(port: int) -> None:
    """Fail if another user can bind the port with any option."""
    command = [*another_user(), PYTHON, "-c", TAKE, str(port)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def end(job: Job) -> None:
    (job.folder / "end").touch()
    assert job.wait(60) == [0, 0], job.outputs()
    assert job.left_nothing()


def groups(job: Job) -> int | None:
    return groups_of_ranks(Attempt(str(job.folder), job.attempt).run(), str(job.records))


def test_another_user_cannot_take_the_port_while_somebody_listens_there() -> None:
    with listen_alone() as listener:
        try_to_take(listener.getsockname()[1])


def test_another_user_never_gets_the_port_of_a_job(torch_job: Any) -> None:
    job = torch_job(TOGETHER)
    port = port_of(job)
    try_to_take(port)
    (job.folder / "go").touch()
    job.until(lambda: job.outputs().count("total 4") == 4, timeout=60)
    try_to_take(port)
    end(job)
    assert groups(job) == 1


def test_ranks_that_have_met_the_store_alone_have_not_met(torch_job: Any) -> None:
    job = torch_job(ALONE)
    port_of(job)
    (job.folder / "go").touch()
    job.until(lambda: job.outputs().count("total 1") == 4, timeout=60)
    end(job)
    assert groups(job) == 4


@pytest.mark.parametrize("of_agent", [False, True])
def test_a_job_ends_with_its_store_and_a_store_with_its_agent(
    torch_job: Any, *, of_agent: bool
) -> None:
    job = torch_job(TOGETHER)
    port = port_of(job)
    [store] = [pid for pid in job.processes() if "TCPStore" in command_of(pid)]
    os.kill(job.agents[0].pid if of_agent else store, signal.SIGKILL)
    assert 0 not in job.wait(60)
    assert job.left_nothing()
    if not of_agent:
        assert (
            "torch's store, run beside the program by its launcher, ended: killed" in job.outputs()
        )
    with socket.socket() as client:
        assert client.connect_ex((ADDRESS, port)) == errno.ECONNREFUSED


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode()
    except OSError:
        return ""
