"""Whether ranks were connected to each other: real processes that are, and that are not."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from agent_job import RECORD_A_STEP, jobs

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


def groups(folder: Path, program: str, **run: Any) -> Any:
    """How many groups the verdict tells of, with its words."""
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
        (ITSELF, 2, {}),
        (MEMORY, 1, {"nodes": 1, "ranks_per_node": 2}),
        (DAEMON, 1, {}),
        (NEVER, None, {"independent": True}),
        (NEVER, None, {"nodes": 1}),
    ],
)
def test_ranks_are_seen_to_meet(
    tmp_path: Path, program: str, found: int | None, run: dict[str, Any]
) -> None:
    number, said = groups(tmp_path, program, **run)
    assert number == found
    assert ("never met" in said) == (found not in (None, 1))


def link(local: str, remote: str, network: str = "") -> str:
    return f"{network}>{local}>{remote}"


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
    ],
)
def test_what_a_node_did_not_note_proves_nothing(tmp_path: Path, noted: Any) -> None:
    first = {"schema_version": 2, "unclear": False, "links": {"0": []}}
    (tmp_path / "links-0.json").write_text(json.dumps(first))
    if noted is not None:
        (tmp_path / "links-1.json").write_text(json.dumps({"schema_version": 2, **noted}))
    assert groups_of_ranks({"nodes": 2, "ranks_per_node": 1}, str(tmp_path)) is None
