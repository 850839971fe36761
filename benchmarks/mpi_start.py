"""Times the start of large MPI jobs: what MPICH 5.0.2 asks of PMI-1 until MPI_Init has returned.

Real servers and simulated clients. One node is whole: its agent, and ranks that send the messages of MPICH
with UCX, as they were seen, in their order. Of the other nodes there is what their agents send and fetch.
Prints a table and, as its last line, the figures as JSON. `--quick` leaves out the largest job.
"""

import argparse
import asyncio
import json
import random
import socket
import sys
import time
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Any

import rendezvous
from rendezvous import ADDRESS, PER_NODE, Agent, processes, server, settings, start_head

from argosy.runtime.agent.coordination.server import PUT_PATH
from argosy.runtime.agent.rendezvous.key_values import PUT, Entry, encode, pack
from argosy.runtime.agent.rendezvous.local_server import KvReplica
from argosy.runtime.agent.rendezvous.pmi import PmiServer
from argosy.runtime.agent.rendezvous.store import Rendezvous

BARS = {"seconds": 30.0, "mb": 500.0}
SEGMENTS = 3
# A node's first rank puts the address of its node for all: 2.2 KB in hexadecimal digits and runs of zeros.
LENGTHS = (1125, 1125, 10)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    rendezvous.raise_limit()
    figures = []
    for nodes in (64, 256) if parser.parse_args().quick else (64, 256, 1024):
        figures.append(measure(nodes))
        rendezvous.show(f"{nodes * PER_NODE} ranks", figures[-1])
    print(json.dumps({"start": figures, "bars": BARS}))
    return 0


def cards(node: int) -> Iterator[tuple[str, str]]:
    """Keys and values that a node's first rank puts."""
    rank = node * PER_NODE
    yield f"-allgather-1-{rank}", f"segments={SEGMENTS}"
    # Of chance, so they pack less than real ones.
    digits = random.Random(node).randbytes(max(LENGTHS)).hex().upper()
    for number, length in enumerate(LENGTHS, 1):
        yield f"-allgather-1-{rank}-seg-{number}/{SEGMENTS}", digits[number : number + length]


def measure(nodes: int) -> dict[str, Any]:
    """All agents of a job, and the ranks of its last node."""
    with (
        server(start_head, nodes) as (head, used),
        server(start_agent, nodes, nodes - 1, head) as (port, node_used),
    ):
        began = time.monotonic()
        seconds = asyncio.run(_all_nodes(nodes, head, port))
        return {
            "nodes": nodes,
            "seconds": round(time.monotonic() - began, 1),
            "ranks_s": round(seconds, 1),
            **{f"head_{name}": value for name, value in used().items()},
            **{f"node_{name}": value for name, value in node_used().items()},
        }


def start_agent(nodes: int, node: int, head: int) -> int:
    outbox: SimpleQueue[bytes] = SimpleQueue()
    values = Rendezvous(node, outbox)
    told = settings(nodes, node, head)
    KvReplica(told, values, outbox, ordered=lambda: None, trouble=print).start()
    pmi = PmiServer(told, values, print, print)
    pmi.start()
    return pmi.endpoint[1]


async def _all_nodes(nodes: int, head: int, port: int) -> float:
    """Start all nodes; returns the seconds that the whole node's ranks needed."""
    here, there = processes.Pipe()
    last = Last(nodes, nodes - 1, head, {}, here)
    players = processes.Process(target=_play, args=(port, nodes, there), daemon=True)
    players.start()
    here.recv()
    await asyncio.gather(
        *(Node(nodes, node, head, {}).run() for node in range(nodes - 1)), last.run()
    )
    return last.seconds


class Node(Agent):
    """The bulk traffic of a node whose ranks start MPI."""

    async def run(self) -> int:
        started = asyncio.Event()
        tasks = [asyncio.create_task(self._beat(started)), asyncio.create_task(self._fetch())]
        await started.wait()
        ask = await self._connect()
        parts = [PUT.pack(self._node)]
        for key, value in cards(self._node):
            entry = Entry(self._node, 1, 0, "pmi", f":{key}", pack(value.encode()))
            parts.append(encode(entry))
        parts.append(encode(self._barrier(str(self._node))))
        await ask(PUT_PATH, b"".join(parts))
        until = self._nodes * (len(LENGTHS) + 2)
        async with self._grown:
            await self._grown.wait_for(lambda: self._place >= until)
        await ask(PUT_PATH, PUT.pack(self._node) + encode(self._barrier("")))
        for task in tasks:
            task.cancel()
        return self._received

    def _barrier(self, key: str) -> Entry:
        return Entry(self._node, 1, 0, "pmi.barrier", key, pack(b""))


class Last(Agent):
    """The heartbeat of the node that is whole."""

    def __init__(self, nodes: int, node: int, head: int, values: Any, ranks: Any) -> None:
        super().__init__(nodes, node, head, values)
        self._ranks = ranks
        self.seconds = 0.0

    async def run(self) -> int:
        started = asyncio.Event()
        beating = asyncio.create_task(self._beat(started))
        await started.wait()
        self._ranks.send(None)
        self.seconds = await asyncio.to_thread(self._ranks.recv)
        beating.cancel()
        return 0


def _play(port: int, nodes: int, told: Any) -> None:
    """Be the ranks of the last node; all of them are through when the slowest is."""
    told.send(None)
    told.recv()
    began = time.monotonic()
    first = (nodes - 1) * PER_NODE
    asks = [_connected(port) for _ in range(PER_NODE)]
    for local, ask in enumerate(asks):
        ask(f"cmd=initack pmiid={first + local}", 4)
        ask("cmd=init pmi_version=1 pmi_subversion=1")
        ask("cmd=get_maxes")
        ask("cmd=get_appnum")
        kvs = ask("cmd=get_my_kvsname").split()[1]
        for key in ("PMI_process_mapping", "PMI_hwloc_xmlfile", "PMI_mpi_memory_alloc_kinds"):
            ask(f"cmd=get {kvs} key={key}")
    for key, value in cards(nodes - 1):
        asks[0](f"cmd=put {kvs} key={key} value={value}")
    for ask in asks:
        ask("cmd=barrier_in", 0)
    for ask in asks:
        assert "barrier_out" in ask("", 1)
    for node in range(nodes):
        for key, value in cards(node):
            assert asks[0](f"cmd=get {kvs} key={key}").endswith(f"value={value}\n"), key
    told.send(time.monotonic() - began)


def _connected(port: int) -> Callable[..., str]:
    pmi = socket.create_connection((ADDRESS, port)).makefile("rw", encoding="ascii")

    def ask(line: str, answers: int = 1) -> str:
        if line:
            pmi.write(f"{line}\n")
            pmi.flush()
        return "".join(pmi.readline() for _ in range(answers))

    return ask


if __name__ == "__main__":
    sys.exit(main())
