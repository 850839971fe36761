"""Times the start of large jobs: what the ranks of Horovod ask when they look for each other.

Real servers, simulated clients with the requests of horovod 0.28.1 (http_store.cc, gloo_context.cc
and Gloo's rendezvous/context.cc) in their order. Prints a table and, as its last line, the figures
as JSON. `--quick` leaves out the largest job and the repeats.
"""

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import resource
import socket
import statistics
import struct
import sys
import tempfile
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from run_files import run_content

from argosy.runtime.agent.coordination.coordinator import Coordinator
from argosy.runtime.agent.coordination.server import BEAT_PATH, NEWS_PATH, PUT_PATH, serve_head
from argosy.runtime.agent.rendezvous.key_values import (
    NEWS,
    NEWS_REQUEST,
    PUT,
    Entry,
    encode,
    pack,
)
from argosy.runtime.agent.rendezvous.local_server import KvReplica, serve_ranks
from argosy.runtime.agent.rendezvous.store import Rendezvous
from argosy.runtime.agent.settings import Settings, read_settings
from argosy.runtime.agent.transport.client import HeadClient
from argosy.runtime.agent.transport.messages import Report
from argosy.runtime.agent.transport.signing import Nonces, Signer
from argosy_images.store.store import Store

ADDRESS = "127.0.0.1"
PER_NODE = 8
TOKEN = "secret-of-the-job"
HOST_NAME = b"node-name-16byte"
SHORT = 256  # bytes
BARS = {"seconds": 30.0, "mb": 500.0, "times": 5.0}
PROJECT = Path(__file__).parents[1]
processes = multiprocessing.get_context("spawn")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    sizes = (64, 256) if quick else (64, 256, 1024)
    figures: dict[str, Any] = {"head": [], "node": []}
    raise_limit()
    for nodes in sizes:
        figures["head"].append(measure_head(nodes, gloo_values=False))
        show("head", figures["head"][-1])
    for nodes in sizes:
        figures["head"].append(measure_head(nodes, gloo_values=True))
        show("head", figures["head"][-1])
    for nodes in sizes:
        figures["node"].append(measure_node(nodes))
        show("node", figures["node"][-1])
    figures["beside_horovod"] = compare(32, repeats=1 if quick else 3)
    show("256 ranks", figures["beside_horovod"])
    print(json.dumps(figures))
    return 0


def show(what: str, figures: dict[str, Any]) -> None:
    print(
        f"{what:>10}  " + "  ".join(f"{name} {value}" for name, value in figures.items()),
        flush=True,
    )


# ---- what ranks put and ask


def gloo_value(size: int) -> bytes:
    """What a rank of `size` tells its peers: Gloo's address, and a number, for each of them."""
    address = struct.pack("=HH4s120x", socket.AF_INET, 40000, bytes([10, 0, 3, 7]))
    return b"".join(address + struct.pack("=q", peer) for peer in range(size - 1))


def scopes(rank: int, nodes: int) -> list[tuple[str, int, int]]:
    """The scopes in which a rank meets others: name, its rank there, and how many meet."""
    node, local = divmod(rank, PER_NODE)
    return [
        ("global_", rank, nodes * PER_NODE),
        (f"local_node{node}", local, PER_NODE),
        (f"cross_{local}", node, nodes),
    ]


def requests(scope: str, rank: int, size: int, value: bytes) -> Iterator[tuple[bytes, bool]]:
    """What a rank asks until it is connected; True where it asks again after a 404."""
    yield request("PUT", f"/{scope}/rank_{rank}", HOST_NAME), False
    for peer in range(rank):
        yield request("GET", f"/{scope}/rank_{peer}"), False
    yield request("PUT", f"/{scope}/{rank}", value), False
    for peer in range(size):
        if peer != rank:
            yield request("GET", f"/{scope}/{peer}"), True
            yield request("GET", f"/{scope}/{peer}"), False


def request(method: str, path: str, body: bytes = b"") -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nHost: {ADDRESS}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def asked(port: int, message: bytes) -> socket.socket:
    """One connection for one request, as Horovod's client does it."""
    connection = socket.socket()
    connection.settimeout(60)
    connection.connect((ADDRESS, port))
    connection.sendall(message)
    return connection


def answered(connection: socket.socket) -> int:
    """The answer's status, when all of it is there."""
    with connection:
        answer = connection.recv(1 << 16)
        while b"\r\n\r\n" not in answer and (data := connection.recv(1 << 16)):
            answer += data
        head, _, body = answer.partition(b"\r\n\r\n")
        missing = int(head.lower().partition(b"content-length: ")[2].split()[0]) - len(body)
        while missing > 0:
            missing -= len(connection.recv(1 << 20))
    return int(head[9:12])


def play(
    ranks: dict[int, int], nodes: int, value_of: Callable[[int], bytes], width: int, barrier: Any
) -> None:
    """Be some ranks (with the port of each) until they have met everybody; `width` ask at once."""
    for stage in range(3):
        turns = []
        for rank, port in ranks.items():
            scope, own, size = scopes(rank, nodes)[stage]
            turns.append((port, list(requests(scope, own, size, value_of(size)))[::-1]))
        barrier.wait()
        while turns:
            groups = (turns[each : each + width] for each in range(0, len(turns), width))
            advanced = [_turn(group) for group in groups]
            if not any(advanced):
                time.sleep(0.01)
            turns = [turn for turn in turns if turn[1]]
        barrier.wait()
        for rank, port in ranks.items():
            scope, own, _ = scopes(rank, nodes)[stage]
            answered(asked(port, request("DELETE", f"/{scope}/{own}")))
    barrier.wait()


def _turn(turns: list[tuple[int, list[tuple[bytes, bool]]]]) -> bool:
    """One request of each of several ranks, at the same time; whether any got on."""
    connections = [asked(port, left[-1][0]) for port, left in turns]
    advanced = False
    for connection, (_, left) in zip(connections, turns, strict=True):
        if answered(connection) != 404 or not left[-1][1]:
            left.pop()
            advanced = True
    return advanced


# ---- servers, each in a process of its own


def settings(nodes: int, node: int, port: int) -> Settings:
    environment = {
        "ARGOSY_ATTEMPT": "1.0",
        "ARGOSY_NODE": str(node),
        "ARGOSY_NODES": str(nodes),
        "ARGOSY_RANKS_PER_NODE": str(PER_NODE),
        "ARGOSY_HEAD_ADDRESS": ADDRESS,
        "ARGOSY_HEAD_PORT": str(port),
        "ARGOSY_TOKEN": TOKEN,
    }
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "run.json").write_text(json.dumps(run_content(nodes=nodes)))
        return read_settings({**environment, "ARGOSY_RUN_DIR": folder})


@contextlib.contextmanager
def server(start: Callable[..., int], *arguments: Any) -> Iterator[tuple[int, Callable[[], Any]]]:
    """A server's port, and what tells the seconds of CPU and the MB that its process has used."""
    here, there = processes.Pipe()
    process = processes.Process(target=_serve, args=(there, start, *arguments), daemon=True)
    process.start()
    there.close()  # So that a server that fails is noticed.

    def used() -> dict[str, float]:
        here.send(None)
        return here.recv()  # type: ignore[no-any-return]

    try:
        yield here.recv(), used
    finally:
        process.terminate()
        process.join()


def _serve(pipe: Any, start: Callable[..., int], *arguments: Any) -> None:
    raise_limit()
    pipe.send(start(*arguments))
    while True:
        pipe.recv()
        usage = resource.getrusage(resource.RUSAGE_SELF)
        cpu = usage.ru_utime + usage.ru_stime
        # Not ru_maxrss, which has kept the size of the process before its exec.
        status = Path("/proc/self/status").read_text()
        most = int(status.partition("VmHWM:")[2].split()[0])
        pipe.send({"cpu_s": round(cpu, 1), "mb": round(most / 1024, 1)})


def start_head(nodes: int) -> int:
    with socket.create_server((ADDRESS, 0)) as free:
        port = int(free.getsockname()[1])
    call: list[Callable[[], object]] = []
    coordinator = Coordinator(nodes, 300, lambda: None, changed=lambda: [each() for each in call])
    call.append(serve_head(settings(nodes, 0, port), coordinator, print))
    return port


def start_agent(nodes: int, node: int, head: int) -> int:
    outbox: SimpleQueue[bytes] = SimpleQueue()
    rendezvous = Rendezvous(node, outbox)
    told = settings(nodes, node, head)
    KvReplica(told, rendezvous, outbox, ordered=lambda: None, trouble=print).start()
    return serve_ranks(told, rendezvous, print)[1]


def start_horovod(nodes: int) -> int:
    server = _horovods_server()()
    port = server.start()
    slots = [
        types.SimpleNamespace(
            size=nodes * PER_NODE,
            hostname=f"node{rank // PER_NODE}",
            local_size=PER_NODE,
            local_rank=rank % PER_NODE,
            cross_size=nodes,
        )
        for rank in range(nodes * PER_NODE)
    ]
    server.init(slots)
    return int(port)


def _horovods_server() -> Any:
    lock = json.loads((PROJECT / "resources/images/torch-cpu/image.lock").read_text())
    root = Store.of_project(PROJECT).root(lock["digest"])
    (package,) = root.glob("opt/venv/lib/python3*/site-packages/horovod")
    # Only its server: the packages above it would load torch.
    for name in ("horovod", "horovod.runner", "horovod.runner.util", "horovod.runner.http"):
        module = types.ModuleType(name)
        module.__path__ = [str(package.joinpath(*name.split(".")[1:]))]
        sys.modules[name] = module
    from horovod.runner.http.http_server import RendezvousServer  # type: ignore[import-not-found]

    return RendezvousServer


# ---- the head and all agents


def measure_head(nodes: int, *, gloo_values: bool) -> dict[str, Any]:
    """The head, while the agents of all nodes bring and fetch what their ranks put."""
    with server(start_head, nodes) as (port, used):
        began = time.monotonic()
        total = asyncio.run(_all_agents(nodes, port, gloo_values))
        seconds = time.monotonic() - began
        return {
            "nodes": nodes,
            "values": "gloo" if gloo_values else SHORT,
            "seconds": round(seconds, 1),
            **used(),
            "answered_mb": round(total / 1e6),
        }


async def _all_agents(nodes: int, port: int, gloo_values: bool) -> int:
    sizes = (nodes * PER_NODE, PER_NODE, nodes)
    values = {size: pack(gloo_value(size)) if gloo_values else pack(bytes(SHORT)) for size in sizes}
    agents = [Agent(nodes, node, port, values) for node in range(nodes)]
    return sum(await asyncio.gather(*(agent.run() for agent in agents)))


class Agent:
    """The bulk traffic of one node, without its ranks."""

    def __init__(self, nodes: int, node: int, port: int, values: dict[int, bytes]) -> None:
        self._nodes, self._node, self._port, self._values = nodes, node, port, values
        self._signer = Signer(TOKEN)
        self._place = self._received = 0
        self._grown = asyncio.Condition()

    async def run(self) -> int:
        started = asyncio.Event()
        beating = asyncio.create_task(self._beat(started))
        fetching = asyncio.create_task(self._fetch())
        await started.wait()
        ask = await self._connect()
        ranks = self._nodes * PER_NODE
        for stage, until in enumerate((2 * ranks, 0, 6 * ranks)):
            await ask(PUT_PATH, self._entries(stage, "rank_"))
            await ask(PUT_PATH, self._entries(stage, ""))
            async with self._grown:
                await self._grown.wait_for(lambda until=until: self._place >= until)
            await ask(PUT_PATH, self._entries(stage, None))
        beating.cancel()
        fetching.cancel()
        return self._received

    def _entries(self, stage: int, prefix: str | None) -> bytes:
        parts = [PUT.pack(self._node)]
        for local in range(PER_NODE):
            scope, own, size = scopes(self._node * PER_NODE + local, self._nodes)[stage]
            if prefix is None:
                parts.append(encode(Entry(self._node, 1, 0, scope, "", pack(b""))))
            else:
                value = pack(HOST_NAME) if prefix else self._values[size]
                parts.append(encode(Entry(self._node, 1, 0, scope, f"{prefix}{own}", value)))
        return b"".join(parts)

    async def _beat(self, started: asyncio.Event) -> None:
        ask = await self._connect()
        while True:
            order = json.loads(await ask(BEAT_PATH, Report(self._node).encode()))
            if order["start"]:
                started.set()
            await asyncio.sleep(1 if started.is_set() else 0.25)

    async def _fetch(self) -> None:
        ask = await self._connect()
        orders = 0
        while True:
            news = await ask(NEWS_PATH, NEWS_REQUEST.pack(self._node, self._place, orders))
            self._received += len(news)
            async with self._grown:
                self._place, orders = NEWS.unpack_from(news)
                self._grown.notify_all()

    async def _connect(self) -> Callable[..., Any]:
        reader, writer = await asyncio.open_connection(ADDRESS, self._port, limit=1 << 18)
        nonces = Nonces()

        async def ask(path: str, body: bytes) -> bytes:
            headers = self._signer.request_headers("POST", path, nonces.next(), body)
            lines = [f"POST {path} HTTP/1.1", f"Content-Length: {len(body)}"]
            lines += [f"{name}: {value}" for name, value in headers.items()]
            writer.write("\r\n".join([*lines, "", ""]).encode() + body)
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200"), head
            return await reader.readexactly(int(head.split(b"Content-Length: ")[1].split()[0]))

        return ask


# ---- one node


def measure_node(nodes: int) -> dict[str, Any]:
    """One agent, while its ranks ask for all others; those are at the head already."""
    last = nodes - 1
    value = bytes(SHORT)
    with (
        server(start_head, nodes) as (head, _),
        server(start_agent, nodes, last, head) as (port, used),
    ):
        client = HeadClient(settings(nodes, 0, head))
        for node in range(last):
            agent = Agent(nodes, node, head, dict.fromkeys((nodes * PER_NODE, nodes), pack(value)))
            for stage in (0, 2):
                for prefix in ("rank_", ""):
                    client.ask(PUT_PATH, agent._entries(stage, prefix), 10)
        barrier = processes.Barrier(2)
        ranks = range(last * PER_NODE, nodes * PER_NODE)
        _player(dict.fromkeys(ranks, port), nodes, SHORT, PER_NODE, barrier)
        seconds = _time(barrier)
        return {"nodes": nodes, "values": SHORT, "seconds": round(seconds, 1), **used()}


def _player(*arguments: Any) -> None:
    processes.Process(target=_play, args=arguments, daemon=True).start()


def _play(ranks: dict[int, int], nodes: int, length: int | None, width: int, barrier: Any) -> None:
    play(ranks, nodes, gloo_value if length is None else lambda _: bytes(length), width, barrier)


def _time(barrier: Any) -> float:
    barrier.wait()
    began = time.monotonic()
    for _ in range(6):
        barrier.wait()
    return time.monotonic() - began


# ---- beside Horovod's own server


def compare(nodes: int, repeats: int) -> dict[str, Any]:
    """All ranks of a job with values as Gloo's are; the same clients for both."""
    ours, theirs = [], []
    for _ in range(repeats):
        ours.append(_ours(nodes))
        theirs.append(_theirs(nodes))
    seconds = [[each["seconds"] for each in repeats] for repeats in (ours, theirs)]
    return {
        "ranks": nodes * PER_NODE,
        "argosy_s": seconds[0],
        "horovod_s": seconds[1],
        "times": round(statistics.median(seconds[1]) / statistics.median(seconds[0]), 1),
        "argosy_busiest_server_cpu_s": [each["cpu_s"] for each in ours],
        "horovod_server_cpu_s": [each["cpu_s"] for each in theirs],
        "bars": BARS,
    }


def _ours(nodes: int) -> dict[str, float]:
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(server(start_head, nodes))]
        head = servers[0][0]
        for node in range(nodes):
            servers.append(stack.enter_context(server(start_agent, nodes, node, head)))
        seconds = _all_ranks(nodes, [port for port, _ in servers[1:]])
        return {"seconds": seconds, "cpu_s": max(used()["cpu_s"] for _, used in servers)}


def _theirs(nodes: int) -> dict[str, float]:
    with server(start_horovod, nodes) as (port, used):
        seconds = _all_ranks(nodes, [port] * nodes)
        return {"seconds": seconds, "cpu_s": used()["cpu_s"]}


def _all_ranks(nodes: int, ports: list[int]) -> float:
    # Six at once are what the queue of Horovod's server holds; each one more may wait for a second.
    players, width = 2, 3
    barrier = processes.Barrier(players + 1)
    for player in range(players):
        ranks = range(nodes * PER_NODE)[player * nodes * PER_NODE // players :]
        mine = {rank: ports[rank // PER_NODE] for rank in ranks[: nodes * PER_NODE // players]}
        _player(mine, nodes, None, width, barrier)
    return round(_time(barrier), 1)


def raise_limit() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


if __name__ == "__main__":
    sys.exit(main())
