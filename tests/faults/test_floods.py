"""Jobs whose ports are beset by strangers: another user of the machine, and the network."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import step_files
from agent_job import ADDRESS, Job, another_user, require_namespaces
from strangers import STRANGERS, beset

pytestmark = pytest.mark.quiet

RENDEZVOUS = {"RANK": "{rank}", "SIZE": "{size}", "HEAD": "{rendezvous_port}"}
STEPS = 10
STEP_S = 0.5
LONGEST_S = 5 * STEPS * STEP_S
# Waits for the strangers, and meets the other ranks before each step, as Horovod does at each init.
PROGRAM = f"""
import http.client, os, time
import argosy_steps
rank, size, folder = int(os.environ["RANK"]), int(os.environ["SIZE"]), os.environ["ARGOSY_RUN_DIR"]
print("rendezvous", os.environ["HEAD"])

def ask(method, key, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", int(os.environ["HEAD"]))
    connection.request(method, key, body)
    answer = connection.getresponse()
    return answer.status, answer.read()

while not os.path.exists(folder + "/beset"):
    time.sleep(0.02)
steps = argosy_steps.Recorder()
for step in range({STEPS}):
    assert ask("PUT", f"/{{step}}/{{rank}}", b"%d" % rank)[0] == 200
    for other in range(size):
        while ask("GET", f"/{{step}}/{{other}}")[0] == 404:
            time.sleep(0.01)
        assert ask("GET", f"/{{step}}/{{other}}") == (200, b"%d" % other)
    with steps.step(samples=1):
        time.sleep({STEP_S})
"""


@contextmanager
def two_machines() -> Iterator[tuple[list[str], list[str]]]:
    """What starts a command on the one and on the other: networks with a cable, of a user's own."""
    require_namespaces()
    hold = ["sh", "-c", "echo; exec sleep 300"]
    with started(["unshare", "-rn", *hold]) as one:
        on_one = ["nsenter", f"--target={one}", "--user", "--preserve-credentials", "--net"]
        with started([*on_one, "unshare", "-n", *hold]) as other:
            on_other = [*on_one[:-1], f"--net=/proc/{other}/ns/net"]
            cable = ["ip", "link", "add", "cable", "type", "veth", "peer", "cable", "netns"]
            subprocess.run([*on_one, *cable, str(other)], check=True)
            for number, machine in enumerate((on_one, on_other), 1):
                address = ["ip", "address", "add", f"10.9.0.{number}/24", "dev", "cable"]
                subprocess.run([*machine, *address], check=True)
                for device in ("lo", "cable"):
                    subprocess.run([*machine, "ip", "link", "set", device, "up"], check=True)
            yield on_one, on_other


@contextmanager
def started(command: list[str]) -> Iterator[int]:
    """The pid of a command that has said that it runs."""
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout
            process.stdout.readline()
            yield process.pid
        finally:
            process.kill()


def ports_of(job: Job) -> list[int]:
    """Where each node's ranks find the others."""
    job.until(lambda: job.outputs().count("rendezvous ") == job.nodes)
    return [int(job.output(node).split("rendezvous ")[1].split()[0]) for node in range(job.nodes)]


def trained(job: Job, nodes: int) -> list[int]:
    """The steps that each rank has recorded."""
    return [step_files.count(job.records / f"rank-{rank}.steps") for rank in range(nodes)]


def test_strangers_of_another_user_do_not_keep_a_job_from_completing(job: Any) -> None:
    job = job(PROGRAM, nodes=3, rank_environment=RENDEZVOUS).start()
    places = [f"{ADDRESS}:{port}" for port in [job.port, *ports_of(job)]]
    with beset(another_user(), *places) as made:
        began = time.monotonic()
        (job.folder / "beset").touch()
        codes = job.wait(60)
        took = time.monotonic() - began
    assert codes == [0, 0, 0], job.outputs()
    assert trained(job, 3) == [STEPS] * 3
    assert made[0] >= STRANGERS
    print(f"{took:.1f} s with {made[0]} connections")
    assert took < LONGEST_S


def test_strangers_of_the_network_do_not_keep_a_job_from_completing(job: Any) -> None:
    """Nobody knows whose they are, and the site allows few open files; agents come while they are there."""
    job = job(PROGRAM, nodes=3, rank_environment=RENDEZVOUS)
    with two_machines() as (here, there):
        job.wrapper = [*here, "prlimit", "--nofile=256:256"]
        job.start(0, ARGOSY_HEAD_ADDRESS="10.9.0.1")
        job.until_printed("agent started")
        with beset(there, f"10.9.0.1:{job.port}") as made:
            began = time.monotonic()
            (job.folder / "beset").touch()
            job.start(1, 2, ARGOSY_HEAD_ADDRESS="10.9.0.1")
            codes = job.wait(60)
            took = time.monotonic() - began
    assert codes == [0, 0, 0], job.outputs()
    assert trained(job, 3) == [STEPS] * 3
    assert made[0] >= STRANGERS
    print(f"{took:.1f} s with {made[0]} connections")
    assert took < LONGEST_S
    assert "refused a request from 10.9.0.2: not signed" in job.output(0)
