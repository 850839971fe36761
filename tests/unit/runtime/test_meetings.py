"""Detection of connections between ranks, with real processes."""

import json
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from agent_job import PYTHON, RECORD_A_STEP, jobs
from run_files import run_spec

from argosy.runtime.agent.processes import links
from argosy.runtime.meetings import count_groups, groups_of_ranks

SERVE = """
import os, socket, time
rank, size, port = int(os.environ["ARGOSY_RANK"]), int(os.environ["SIZE"]), int(os.environ["PORT"])
def connect(port):
    for _ in range(100):
        try: return socket.create_connection(("127.0.0.1", port))
        except OSError: time.sleep(0.05)
def meet(first, others):
    if rank == first:
        server = socket.create_server(("127.0.0.1", port + first))
        return [server.accept()[0] for _ in others]
    return connect(port + first) if rank in others else None
"""
ALL = SERVE + "kept = meet(0, range(1, size))\ntime.sleep(1)\n" + RECORD_A_STEP
PAIRS = SERVE + "kept = meet(0, [1]), meet(2, [3])\ntime.sleep(1)\n" + RECORD_A_STEP
ITSELF = (
    SERVE + "kept = socket.create_server(('127.0.0.1', 0)); mine = connect(kept.getsockname()[1])\n"
)
ITSELF += "other = kept.accept()\ntime.sleep(1)\n" + RECORD_A_STEP
NEVER = "import time\ntime.sleep(1)\n" + RECORD_A_STEP
MEMORY = SERVE + """
import mmap
path = f"/dev/shm/argosy-test-{port}"
with open(path, "a+b") as file:
    file.truncate(4096)
    kept = mmap.mmap(file.fileno(), 4096)
time.sleep(1)
if rank == 0: os.unlink(path)
""" + RECORD_A_STEP  # fmt: skip
# The first ranks of two nodes are connected, then each node shares memory.
NODES_THEN_MEMORY = SERVE + "met = meet(0, [2])\ntime.sleep(0.5)\n" + MEMORY[len(SERVE) :].replace(
    "{port}", "{port}-{rank // 2}"
).replace("rank == 0", "rank % 2 == 0")  # fmt: skip
# Below proot /dev/shm is a folder of the node's disk.
MEMORY_OF_PROOT = MEMORY.replace(
    'path = f"/dev/shm/', 'os.makedirs("dev/shm", exist_ok=True)\npath = f"dev/shm/'
)
MEMORY_OF_SYSTEM_V = SERVE + """
import ctypes
libc = ctypes.CDLL(None)
libc.shmat.restype = ctypes.c_void_p
number = libc.shmget(port, 4096, 0o1600)
kept = libc.shmat(number, None, 0)
time.sleep(1)
if rank == 0: libc.shmctl(number, 0, None)
""" + RECORD_A_STEP  # fmt: skip
CALLS = SERVE + """
def answer():
    while True:
        server.accept()[0].close()
if rank == 0:
    import threading
    server = socket.create_server(("127.0.0.1", port))
    threading.Thread(target=answer, daemon=True).start()
for _ in range(0 if rank == 0 else 8):
    connect(port).recv(1)
    time.sleep(0.2)
time.sleep(2)
""" + RECORD_A_STEP  # fmt: skip
DAEMON = SERVE + """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        kept = meet(0, range(1, size))
        time.sleep(4)
    os._exit(0)
os.wait()
time.sleep(4)
""" + RECORD_A_STEP  # fmt: skip


UNSEEN = 0


def groups(folder: Path, program: str, **run: Any) -> Any:
    """Return the number of groups in the verdict, and its text."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with jobs(folder) as job:
        size = run.get("nodes", 2) * run.get("ranks_per_node", 1)
        variables = {"SIZE": str(size), "PORT": str(port)}
        one = job(program, rank_environment=variables, **run).start()
        assert set(one.wait()) == {0}, one.outputs()
        said = one.verdict()
        assert said.returncode == 0
        verdict = json.loads((one.attempt_dir / "verdict.json").read_text())
        return verdict.get("groups"), said.stdout.strip()


@pytest.mark.parametrize(
    ("program", "found", "run"),
    [
        (ALL, 1, {}),
        (ALL, 1, {"nodes": 1, "ranks_per_node": 3}),
        (PAIRS, 2, {"ranks_per_node": 2}),
        (NEVER, 2, {}),
        (NEVER, 3, {"nodes": 1, "ranks_per_node": 3}),
        (NODES_THEN_MEMORY, 1, {"ranks_per_node": 2}),
        (ITSELF, 2, {}),
        (MEMORY, 1, {"nodes": 1, "ranks_per_node": 2}),
        (MEMORY_OF_PROOT, 1, {"nodes": 1, "ranks_per_node": 2}),
        (MEMORY_OF_SYSTEM_V, 1, {"nodes": 1, "ranks_per_node": 2}),
        (DAEMON, 1, {}),
        (CALLS, UNSEEN, {}),
        (CALLS, UNSEEN, {"nodes": 1, "ranks_per_node": 2}),
        (NEVER, None, {"independent": True}),
        (NEVER, None, {"nodes": 1}),
    ],
)
def test_ranks_are_seen_to_meet(
    tmp_path: Path, program: str, found: int | None, run: dict[str, Any]
) -> None:
    number, said = groups(tmp_path, program, **run)
    assert number == (None if found == UNSEEN else found)
    assert ("never met" in said) == (found not in (None, 1, UNSEEN))
    assert ("it is unknown whether its ranks met" in said) == (found == UNSEEN)


BESIDE = (
    SERVE
    + """
if rank == 0:
    server, kept = socket.create_server(("127.0.0.1", port)), []
    while True: kept.append(server.accept()[0])
kept = connect(port)
time.sleep(60)
"""
)
# It uses the cluster long enough for a scan before the program starts.
CONNECTS_FIRST = (
    SERVE
    + """
import subprocess, sys
kept = connect(port)
time.sleep(1.2)
kept.close()
"""
)
BECOMES = CONNECTS_FIRST + "os.execvp(sys.argv[1], sys.argv[1:])"
CALLS_IT = CONNECTS_FIRST + "sys.exit(subprocess.call(sys.argv[1:]))"
USES = SERVE + "kept = connect(port)\ntime.sleep(3)\n" + RECORD_A_STEP
CALLS_ONCE = SERVE + "time.sleep(1)\nconnect(port).close()\ntime.sleep(1)\n" + RECORD_A_STEP
IN_A_DAEMON = SERVE + """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(0.5)
        kept = connect(port)
        time.sleep(3)
    os._exit(0)
os.wait()
time.sleep(3)
""" + RECORD_A_STEP  # fmt: skip
# It listens and does not accept: the other end has no owner yet.
BACKLOG = (
    SERVE
    + """
if rank == 0:
    server = socket.create_server(("", port))
    time.sleep(60)
kept = connect(port)
time.sleep(60)
"""
)
IN_A_CHILD = SERVE + """
if os.fork() == 0:
    kept = connect(port)
    time.sleep(3)
    os._exit(0)
os.wait()
""" + RECORD_A_STEP  # fmt: skip


@pytest.mark.parametrize(
    ("start", "program", "found"),
    [
        (None, USES, 1),
        (None, NEVER, 2),
        (None, CALLS_ONCE, UNSEEN),
        (None, IN_A_CHILD, 1),
        (BECOMES, USES, 1),
        (BECOMES, NEVER, 2),
        (BECOMES, IN_A_DAEMON, 1),
        (CALLS_IT, USES, 1),
        (CALLS_IT, NEVER, 2),
    ],
)
def test_a_program_is_seen_to_use_the_commands_beside_it(
    tmp_path: Path, start: str | None, program: str, found: int
) -> None:
    """The launcher's `start` uses the commands as well, which does not count."""
    more = {"start": [PYTHON, "-c", start.replace("{", "{{").replace("}", "}}")]} if start else {}
    beside = {"each": [[PYTHON, "-c", BESIDE]]}
    number, said = groups(tmp_path, program, per="job", beside=beside, **more)
    assert number == (found or None)
    names = "its program and the commands beside it"
    assert (f"{names} never met: they are 2 groups" in said) == (found == 2)
    assert (f"it is unknown whether {names} met" in said) == (found == UNSEEN)


def test_a_connection_that_waits_to_be_accepted_is_one(tmp_path: Path) -> None:
    beside: Any = {"each": [[PYTHON, "-c", BACKLOG]]}
    one: Any = {"nodes": 1, "ranks_per_node": 2}
    assert groups(tmp_path, USES, per="job", beside=beside, **one)[0] == 1


def test_one_program_alone_needs_no_commands(tmp_path: Path) -> None:
    beside = {"head": [[PYTHON, "-c", BESIDE]]}
    assert groups(tmp_path, NEVER, per="job", beside=beside, nodes=1)[0] is None


LATE = """
import socket, sys, time
time.sleep(float(sys.argv[2]))
if sys.argv[1] == "0":
    kept = socket.create_server(("127.0.0.1", int(sys.argv[3]))).accept()[0]
else:
    time.sleep(0.5)
    kept = socket.create_connection(("127.0.0.1", int(sys.argv[3])))
time.sleep(3)
"""


def test_ranks_that_meet_late_and_shortly_are_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after minutes of preparation: only the last phase of scans remains."""
    monkeypatch.setattr(links, "_SCHEDULE", links._SCHEDULE[-1:])
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
    ranks = [
        subprocess.Popen([sys.executable, "-c", LATE, str(rank), "6", port]) for rank in range(2)
    ]
    node: Any = SimpleNamespace(records=str(tmp_path), node=0)
    watch = links.LinkWatch(node, {rank: [each.pid] for rank, each in enumerate(ranks)}, (), ())
    watch.start()
    assert [each.wait() for each in ranks] == [0, 0]
    watch.write()
    assert groups_of_ranks(run_spec(ranks_per_node=2), str(tmp_path)) == 1


def link(local: str, remote: str, network: str = "") -> str:
    return f"{network}>{local}>{remote}"


NOTED = {"schema_version": 2, "unclear": False, "ports": [], "called": [], "closed": []}
A, B, C = "10.0.0.1:1", "10.0.0.2:2", "10.0.0.3:3"


def test_both_ends_of_a_connection_are_one() -> None:
    assert count_groups({0: [link(A, B)], 1: [link(B, A)]}) == 1
    assert count_groups({0: [link(A, B)], 1: [link(B, A), link(B, C)], 2: [link(C, B)]}) == 1


def test_connections_with_others_are_none_of_the_ranks() -> None:
    assert count_groups({0: [link(A, "10.9.9.9:443")], 1: [link(B, "10.9.9.9:443")]}) == 2
    assert count_groups({0: [], 1: []}) == 2


def test_the_same_addresses_of_two_machines_are_two() -> None:
    own = "127.0.0.1:1", "127.0.0.1:2"
    assert count_groups({0: [link(*own, "one")], 1: [link(own[1], own[0], "other")]}) == 2


def test_nobody_claims_anything_where_one_end_was_seen_only() -> None:
    assert count_groups({0: [link(A, "10.0.0.2:99")], 1: [link(B, "10.9.9.9:443")]}) is None


def test_the_agents_rendezvous_is_a_meeting() -> None:
    assert count_groups({0: ["rendezvous"], 1: ["rendezvous"]}) == 1


@pytest.mark.parametrize(
    "noted",
    [
        None,
        {},
        {"links": []},
        {"links": {"1": "x"}},
        {"links": {"1": [1]}},
        {"links": {"1": []}, "unclear": True},
        {"links": {"1": []}, "unclear": False, "ports": [1]},
    ],
)
def test_what_a_node_did_not_note_proves_nothing(tmp_path: Path, noted: Any) -> None:
    (tmp_path / "links-0.json").write_text(json.dumps({**NOTED, **of_rank(0)}))
    if noted is not None:
        (tmp_path / "links-1.json").write_text(json.dumps({**NOTED, **noted}))
    assert groups_of_ranks(run_spec(nodes=2), str(tmp_path)) == 0


def of_rank(rank: int, **more: Any) -> dict[str, Any]:
    return {"links": {str(rank): []}, "network": f"node{rank}", **more}


@pytest.mark.parametrize(
    ("first", "second", "found"),
    [
        ({}, {}, 2),
        ({"ports": ["5000"]}, {"closed": ["5000", "40000"]}, 0),
        ({"ports": ["5000"], "closed": ["5000", "40000"]}, {}, 0),
        ({"ports": ["5000"]}, {"closed": ["443", "40000"]}, 2),
        ({"ports": ["5000"], "called": ["5000"]}, {}, 2),
        ({"ports": ["5000"], "called": ["5000"]}, {"network": "node0"}, 0),
    ],
)
def test_short_calls_to_a_rank_may_have_been_a_meeting(
    tmp_path: Path, first: dict[str, Any], second: dict[str, Any], found: int
) -> None:
    """A connection from elsewhere, or on a machine with another rank."""
    for rank, more in enumerate((first, second)):
        content = {**NOTED, **of_rank(rank, **more)}
        (tmp_path / f"links-{rank}.json").write_text(json.dumps(content))
    assert groups_of_ranks(run_spec(nodes=2), str(tmp_path)) == found
