"""Jobs whose ports are beset by strangers: another user of the machine, and the network."""

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import connection_flood
import pytest
from agent_job import ADDRESS, Job, another_user, jobs

pytestmark = pytest.mark.alone

STRANGERS = 2000
RENDEZVOUS = {"RANK": "{rank}", "SIZE": "{size}", "HEAD": "{rendezvous_port}"}
STEPS = 10
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
        time.sleep(0.5)
"""


@contextmanager
def beset(become: list[str], *places: str) -> Iterator[list[int]]:
    """Strangers at these places; afterwards the number of connections that they have made."""
    # That user may not look into our folders.
    source = Path(connection_flood.__file__).read_text()
    command = [*become, "/usr/bin/python3", "-c", source, str(STRANGERS), *places]
    made: list[int] = []
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/"
    ) as flood:
        try:
            assert flood.stdout
            assert flood.stdout.readline() == "all\n"
            yield made
            said, _ = flood.communicate("", timeout=30)
            made.append(int(said))
        finally:
            flood.kill()


def ports_of(job: Job) -> list[int]:
    """Where each node's ranks find the others."""
    job.until(lambda: job.outputs().count("rendezvous ") == job.nodes)
    return [int(job.output(node).split("rendezvous ")[1].split()[0]) for node in range(job.nodes)]


def trained(job: Job, nodes: int) -> list[int]:
    """The steps that each rank has recorded."""
    files = [job.records / f"rank-{rank}.jsonl" for rank in range(nodes)]
    return [path.read_text().count('"kind": "step"') for path in files]


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Callable[..., Job]]:
    with jobs(tmp_path) as make:
        yield make


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
