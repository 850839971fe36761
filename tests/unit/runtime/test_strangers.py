"""Servers and clients withstand strangers, and keep descriptors for the agent."""

import os
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from agent_job import ADDRESS, RECORD_A_STEP
from test_messages_between_agents import Echo, free_port, settings

from argosy.runtime.agent.coordination.coordinator import Coordinator
from argosy.runtime.agent.coordination.server import BEAT_PATH, serve_head
from argosy.runtime.agent.transport import http_server
from argosy.runtime.agent.transport.client import HeadClient
from argosy.runtime.agent.transport.http_codec import MAX_BODY, parse_answer, parse_head
from argosy.runtime.agent.transport.http_server import Server, listen
from argosy.runtime.agent.transport.messages import Order, Report
from argosy.runtime.agent.transport.open_files import most_connections
from argosy.runtime.agent.transport.peers import Owners

MOST = 10
REQUEST = b"PUT /scope/key HTTP/1.1\r\nContent-Length: 4\r\n\r\nbody"


def serve(service: Echo) -> int:
    listener = listen((ADDRESS, 0))
    Server(listener, service, print, connections=MOST).start()
    return int(listener.getsockname()[1])


def is_open(client: socket.socket) -> bool:
    client.setblocking(False)
    try:
        return client.recv(1) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


def answers(client: socket.socket) -> bool:
    client.settimeout(5)
    client.sendall(REQUEST)
    return client.recv(1000).endswith(b"body")


def until(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


# ---- the server


def test_idle_strangers_are_few_and_close_nobody_who_is_known() -> None:
    port = serve(Echo())
    known = [socket.create_connection((ADDRESS, port)) for _ in range(3)]
    assert all(map(answers, known))
    idle = [socket.create_connection((ADDRESS, port)) for _ in range(50)]
    assert until(lambda: sum(map(is_open, idle)) == MOST - len(known), 5)
    # The newest connections stay.
    assert all(map(is_open, idle[len(known) - MOST :]))
    assert all(map(answers, known))
    with socket.create_connection((ADDRESS, port)) as another:
        assert answers(another)


def test_who_says_a_little_at_a_time_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "_READ_TIME", 0.5)
    port = serve(Echo())
    for said in (REQUEST, b"PUT /refuse HTTP/1.1\r\nContent-Length: 1000\r\n\r\n" + b"x" * 100):
        began = time.monotonic()
        with socket.create_connection((ADDRESS, port)) as slow:
            for byte in said:
                with suppress(OSError):
                    slow.send(bytes([byte]))
                if not is_open(slow):
                    break
                time.sleep(0.1)
        assert time.monotonic() - began < 4


def test_who_is_not_welcome_is_closed_before_anything_is_read() -> None:
    port = serve(Echo(welcomes=False))
    with socket.create_connection((ADDRESS, port)) as stranger:
        stranger.settimeout(5)
        with pytest.raises(ConnectionResetError):
            stranger.recv(1)


def test_the_head_welcomes_its_user_and_the_network_and_no_other_user(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = settings(free_port())
    said: list[str] = []
    serve_head(told, Coordinator(2, 30, lambda: None), said.append)
    client = HeadClient(told)
    for owner, welcome in ((None, True), (65534, False)):
        # For its own end of a connection, the head gets its own user.
        monkeypatch.setattr(
            Owners,
            "owner",
            lambda _, local, remote, owner=owner: (
                os.getuid() if local[1] == told.head_port else owner
            ),
        )
        client.close()
        if welcome:
            assert Order.decode(client.ask(BEAT_PATH, Report(0).encode(), 5)) == Order()
        else:
            with pytest.raises(OSError):
                client.ask(BEAT_PATH, Report(0).encode(), 5)
    assert said == ["refused connections of another user of this machine"]


def test_heads_of_many_lines_are_refused() -> None:
    lines = b"a: b\r\n" * 100
    with pytest.raises(ValueError, match="not a header"):
        parse_head(b"GET / HTTP/1.1\r\n" + lines + b"c: d")
    with pytest.raises(ValueError, match="not a header"):
        parse_answer(b"HTTP/1.1 200 OK\r\n" + lines + b"c: d")


@pytest.mark.parametrize(
    ("limit", "nodes", "most"), [(256, 2, 61), (1024, 2, 445), (1024, 200, 742), (65536, 2, 518)]
)
def test_connections_leave_descriptors_to_the_agent(
    monkeypatch: pytest.MonkeyPatch, limit: int, nodes: int, most: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    told = settings(1, nodes=nodes)
    assert most_connections(told, of_the_job=3 * nodes) == most


def test_the_limit_of_open_files_is_raised_for_the_agent_and_not_for_ranks(job: Any) -> None:
    look = "import resource; print('limit', resource.getrlimit(resource.RLIMIT_NOFILE))\n"
    # The agent raises its limit again after the rank's start.
    agents = """
import os, time
until = time.monotonic() + 20
def agents(): return open(f"/proc/{os.getppid()}/limits").read()
while "4000                 4000" not in agents() and time.monotonic() < until:
    time.sleep(0.01)
print(agents())
"""
    job = job(look + agents + RECORD_A_STEP, nodes=1)
    job.wrapper = ["prlimit", "--nofile=300:4000"]
    assert job.start().wait() == [0], job.outputs()
    assert "[0] limit (300, 4000)" in job.output(0)
    [line] = [line for line in job.output(0).splitlines() if "Max open files" in line]
    assert line.split()[-3:] == ["4000", "4000", "files"]


BEGUN = """
import os, resource, subprocess, sys
from argosy.runtime.agent.transport.open_files import OpenFiles
files = OpenFiles()
opened = [os.open("/dev/null", os.O_RDONLY) for _ in range(int(sys.argv[1]))]
look = "import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE), flush=True)"
with files.as_before():
    subprocess.run([sys.executable, "-c", look])
print(resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.mark.parametrize(("opened", "of_child"), [(10, 300), (350, 4000)])
def test_a_child_begins_with_the_limit_of_before_where_there_is_room(
    opened: int, of_child: int
) -> None:
    """A program may read its limit before `give_back` changes it."""
    command = ["prlimit", "--nofile=300:4000", sys.executable, "-c", BEGUN, str(opened)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == [f"({of_child}, 4000)", "(4000, 4000)"]


# ---- the client


@contextmanager
def answering(answer: Callable[[socket.socket], object]) -> Iterator[int]:
    """Serve a port that answers each request with `answer`, and closes the connection."""
    with socket.create_server((ADDRESS, 0)) as server:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    client, _ = server.accept()
                    with client, suppress(OSError):
                        client.recv(1 << 16)
                        answer(client)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join(10)


def endless(begin: bytes, then: bytes, pause: float = 0.0) -> Callable[[socket.socket], object]:
    def answer(client: socket.socket) -> None:
        client.sendall(begin)
        while True:
            client.sendall(then)
            time.sleep(pause)

    return answer


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (endless(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 65536), "not signed with the job's token"),
        (endless(b"HTTP/1.1 200 OK\r\n", b"A: " + b"x" * 9999), "bytes of headers"),
        (endless(b"HTTP/1.1 200 OK\r\n", b"A: x\r\n", 0.1), "timed out"),
        (endless(b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n", b"x", 0.1), "timed out"),
        (
            endless(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
            "length",
        ),
        (
            endless(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (MAX_BODY + 1), b"x" * 999),
            f"{MAX_BODY + 1} bytes are announced",
        ),
        (lambda client: client.sendall(b"SSH-2.0\r\n\r\n"), "not an HTTP response"),
        (lambda client: client.sendall(b"HTTP/1.1 403 No\r\n\r\n"), "not signed with the job's"),
        (lambda client: client.close(), "closed without an answer"),
        (lambda client: time.sleep(2), "timed out"),
    ],
)
def test_whoever_answers_is_given_little_room_and_time(
    answer: Callable[[socket.socket], object], words: str
) -> None:
    with answering(answer) as port:
        client = HeadClient(settings(port))
        began = time.monotonic()
        with pytest.raises((OSError, ValueError), match=words):
            client.ask(BEAT_PATH, b"", 1.0)
        assert time.monotonic() - began < 2.5
        assert client._socket is None


def test_an_agent_does_not_give_up_because_somebody_else_answers(job: Any) -> None:
    job = job(RECORD_A_STEP)
    refused = []
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        other.bind((ADDRESS, job.port))
        other.listen()
        other.settimeout(10)
        job.start(1)
        for _ in range(5):
            client, _ = other.accept()
            with client:
                client.recv(1 << 16)
                client.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
                refused.append(client)
    job.start(0)
    assert job.wait() == [0, 0], job.outputs()
    assert len(refused) == 5
