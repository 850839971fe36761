"""Signatures, and the server and client that carry signed messages."""

import http.client
import json
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from run_files import run_content

from argosy.runtime.agent.coordination.coordinator import Coordinator
from argosy.runtime.agent.coordination.heartbeat import RemoteLink
from argosy.runtime.agent.coordination.server import (
    BEAT_PATH,
    HOLD,
    NEWS_PATH,
    PUT_PATH,
    serve_head,
)
from argosy.runtime.agent.rendezvous.key_values import NEWS, NEWS_REQUEST, PUT, Entry, encode, pack
from argosy.runtime.agent.settings import Settings, read_settings
from argosy.runtime.agent.transport.client import FullError, HeadClient
from argosy.runtime.agent.transport.http_codec import MAX_BODY, MAX_HEAD, Request
from argosy.runtime.agent.transport.http_server import Connection, Server, listen
from argosy.runtime.agent.transport.messages import Order, Report
from argosy.runtime.agent.transport.peers import Endpoint
from argosy.runtime.agent.transport.signing import NONCE_HEADER, Nonces, Once, Signer, digest_of

# These tests require answers within milliseconds.
pytestmark = pytest.mark.alone

ADDRESS = "127.0.0.1"


def settings(port: int, nodes: int = 2, token: str = "secret") -> Settings:
    environment = {
        "ARGOSY_ATTEMPT": "1.0",
        "ARGOSY_NODE": "0",
        "ARGOSY_NODES": str(nodes),
        "ARGOSY_RANKS_PER_NODE": "1",
        "ARGOSY_HEAD_ADDRESS": ADDRESS,
        "ARGOSY_HEAD_PORT": str(port),
        "ARGOSY_TOKEN": token,
    }
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "run.json").write_text(json.dumps(run_content()))
        return read_settings({**environment, "ARGOSY_RUN_DIR": folder})


def free_port() -> int:
    with socket.create_server((ADDRESS, 0)) as server:
        return int(server.getsockname()[1])


class Head:
    """A head in this process."""

    def __init__(self) -> None:
        self.settings = settings(free_port())
        self.said: list[str] = []
        self.coordinator = Coordinator(2, 30, lambda: None, changed=self._changed)
        self._ordered = serve_head(self.settings, self.coordinator, self.said.append)

    def _changed(self) -> None:
        self._ordered()

    def client(self, **changes: Any) -> HeadClient:
        return HeadClient(settings(self.settings.head_port, **changes))

    def send(self, path: str, body: bytes, headers: dict[str, str], method: str = "POST") -> int:
        connection = http.client.HTTPConnection(ADDRESS, self.settings.head_port, timeout=5)
        connection.request(method, path, body, headers)
        return connection.getresponse().status


@pytest.fixture
def head() -> Head:
    return Head()


def entry(key: str, value: bytes = b"", node: int = 0) -> bytes:
    return encode(Entry(node, 1, 0, "global_", key, pack(value)))


# ---- signatures


def request(signer: Signer, body: bytes = b"body", path: str = "/path") -> Request:
    headers = signer.request_headers("POST", path, "nonce-1", body)
    return Request("POST", path, headers, len(body), body)


def test_a_request_is_signed_by_who_has_the_token() -> None:
    genuine = request(Signer("token"))
    assert Signer("token").signed(genuine)
    assert Signer("token").whole(genuine)
    assert not Signer("other").signed(genuine)


@pytest.mark.parametrize(
    "change", [{"method": "PUT"}, {"path": "/other"}, {"headers": {}}, {"nonce": "nonce-2"}]
)
def test_a_changed_request_is_not_signed(change: dict[str, Any]) -> None:
    genuine = request(Signer("token"))
    fields = {"method": "POST", "path": "/path", "headers": dict(genuine.headers), **change}
    if nonce := fields.pop("nonce", None):
        fields["headers"][NONCE_HEADER] = nonce
    assert not Signer("token").signed(Request(**fields, length=4))


def test_another_body_is_noticed() -> None:
    genuine = request(Signer("token"))
    genuine.body = b"more"
    assert not Signer("token").whole(genuine)


def test_an_answer_answers_one_request() -> None:
    signer = Signer("token")
    (signature,) = signer.answer_headers("nonce-1", 200, digest_of(b"body")).values()
    assert signer.answered("nonce-1", 200, b"body", signature)
    assert not signer.answered("nonce-2", 200, b"body", signature)
    assert not signer.answered("nonce-1", 413, b"body", signature)
    assert not signer.answered("nonce-1", 200, b"other", signature)
    assert not Signer("other").answered("nonce-1", 200, b"body", signature)
    assert not signer.answered("nonce-1", 200, b"body", "")


def test_a_nonce_is_good_once() -> None:
    nonces, others, once = Nonces(), Nonces(), Once()
    first, second, third = nonces.next(), nonces.next(), nonces.next()
    assert [once.admits(each) for each in (first, first, third, second)] == [
        True,
        False,
        True,
        False,
    ]
    assert once.admits(others.next())
    assert not once.admits("")


# ---- the head


def test_strangers_are_refused_whatever_they_ask(head: Head) -> None:
    for method, path in (("POST", BEAT_PATH), ("GET", "/scope/key"), ("POST", "/argosy/other")):
        assert head.send(path, b"", {}, method) == 403
    with pytest.raises(ValueError, match="not signed with the job's token"):
        head.client(token="guess").ask(BEAT_PATH, Report(1).encode(), 5)
    assert head.said == ["refused a request from 127.0.0.1: not signed with the job's token"]
    assert head.coordinator.beat(Report(0)) == Order()  # node 1 has not appeared


def test_a_stranger_is_refused_before_the_body(head: Head) -> None:
    with socket.create_connection((ADDRESS, head.settings.head_port)) as stranger:
        stranger.sendall(
            b"POST %s HTTP/1.1\r\nContent-Length: 4000000\r\n\r\nabc" % PUT_PATH.encode()
        )
        assert stranger.recv(100).startswith(b"HTTP/1.1 403 ")


def test_a_recorded_request_is_refused(head: Head) -> None:
    body = Report(1).encode()
    headers = Signer("secret").request_headers("POST", BEAT_PATH, Nonces().next(), body)
    assert head.send(BEAT_PATH, body, headers) == 200
    assert head.send(BEAT_PATH, body, headers) == 403


def test_a_signed_request_with_another_body_is_refused(head: Head) -> None:
    headers = Signer("secret").request_headers("POST", BEAT_PATH, Nonces().next(), b"{}")
    assert head.send(BEAT_PATH, Report(1).encode(), headers) == 403
    assert head.coordinator.beat(Report(0)) == Order()


def test_what_agents_do_not_say_is_refused_and_the_connection_goes_on(head: Head) -> None:
    client = head.client()
    for path in (BEAT_PATH, NEWS_PATH, PUT_PATH):
        with pytest.raises(ValueError, match="the head answered 400"):
            client.ask(path, PUT.pack(0) + b"nonsense", 5)
    with pytest.raises(ValueError, match="not signed with the job's token"):
        head.client(token="x").ask("/argosy/other", b"", 5)
    assert Order.decode(client.ask(BEAT_PATH, Report(0).encode(), 5)) == Order()


def test_too_long_a_message_is_refused(head: Head) -> None:
    nonce = Nonces().next()
    headers = Signer("secret").request_headers("POST", PUT_PATH, nonce, b"")
    assert head.send(PUT_PATH, b"", {**headers, "Content-Length": str(MAX_BODY + 1)}) == 413


def test_a_full_board_says_so(head: Head, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("argosy.runtime.agent.rendezvous.store.KvLog.put", _full)
    with pytest.raises(FullError):
        head.client().ask(PUT_PATH, PUT.pack(0), 5)


def _full(*_: object) -> None:
    raise MemoryError


def test_news_comes_when_there_is_some(head: Head) -> None:
    reader, writer = head.client(), head.client()
    waited = in_background(lambda: reader.ask(NEWS_PATH, NEWS_REQUEST.pack(1, 0, 0), 5))
    time.sleep(0.1)
    asked = time.monotonic()
    writer.ask(PUT_PATH, PUT.pack(0) + entry("0", b"address"), 5)
    news = waited()
    assert time.monotonic() - asked < 0.1
    assert NEWS.unpack_from(news) == (1, 0)
    assert news[NEWS.size :] == entry("0", b"address")


def test_new_orders_are_news(head: Head) -> None:
    waited = in_background(lambda: head.client().ask(NEWS_PATH, NEWS_REQUEST.pack(1, 0, 0), 5))
    head.coordinator.beat(Report(0))
    asked = time.monotonic()
    head.coordinator.beat(Report(1))
    assert NEWS.unpack(waited()) == (0, 1)
    assert time.monotonic() - asked < 0.1


def test_without_news_the_answer_comes_in_time(head: Head) -> None:
    asked = time.monotonic()
    news = head.client().ask(NEWS_PATH, NEWS_REQUEST.pack(1, 0, 0), 5)
    assert NEWS.unpack(news) == (0, 0)
    assert HOLD * 0.9 < time.monotonic() - asked < HOLD + 0.5


def test_a_lost_connection_is_made_again(head: Head) -> None:
    client = head.client()
    client.ask(PUT_PATH, PUT.pack(0) + entry("0"), 5)
    assert client._socket
    client._socket.shutdown(socket.SHUT_RDWR)
    client.ask(PUT_PATH, PUT.pack(0) + entry("1"), 5)
    news = client.ask(NEWS_PATH, NEWS_REQUEST.pack(1, 0, 0), 5)
    assert NEWS.unpack_from(news) == (2, 0)
    assert news[NEWS.size :] == entry("0") + entry("1")


# ---- a false head


class Liar:
    """Answers like a head without the token."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._signer = Signer("guess")

    def welcome(self, peer: Endpoint) -> bool:
        return True

    def admit(self, connection: Connection, request: Request) -> int | None:
        return None

    def handle(self, connection: Connection, request: Request) -> None:
        body = self._order.encode()
        headers = self._signer.answer_headers(request.headers[NONCE_HEADER], 200, digest_of(body))
        connection.answer(200, body, headers)

    def turn(self) -> float:
        return 1.0


def test_an_answer_that_is_not_the_heads_is_not_believed() -> None:
    listener = listen((ADDRESS, 0))
    Server(listener, Liar(Order(stop=True)), print, connections=10).start()
    link = RemoteLink(settings(listener.getsockname()[1]))
    with pytest.raises(ValueError, match="not signed with the job's token"):
        link.beat(Report(1))


# ---- the server


class Echo:
    """Answers with the request's body; /fail raises an error. Refuses all peers if not `welcomes`."""

    def __init__(self, welcomes: bool = True) -> None:
        self.welcomes = welcomes

    def welcome(self, peer: Endpoint) -> bool:
        return self.welcomes

    def admit(self, connection: Connection, request: Request) -> int | None:
        return 404 if request.path == "/refuse" else None

    def handle(self, connection: Connection, request: Request) -> None:
        if request.path == "/fail":
            raise RuntimeError("a fault")
        connection.answer(200, request.body)

    def turn(self) -> float:
        return 1.0


@pytest.fixture
def echo() -> tuple[int, list[str]]:
    listener = listen((ADDRESS, 0))
    said: list[str] = []
    Server(listener, Echo(), said.append, connections=10).start()
    return listener.getsockname()[1], said


def test_a_connection_serves_many_requests_and_large_ones(echo: tuple[int, list[str]]) -> None:
    connection = http.client.HTTPConnection(ADDRESS, echo[0], timeout=10)
    for size in (0, 10, 4 << 20, 1):
        connection.request("POST", "/", bytes(size))
        answer = connection.getresponse()
        assert (answer.status, len(answer.read())) == (200, size)


def test_a_fault_in_one_request_is_told_and_spares_the_others(echo: tuple[int, list[str]]) -> None:
    port, said = echo
    with socket.create_connection((ADDRESS, port)) as client:
        client.sendall(b"GET /fail HTTP/1.1\r\n\r\n")
        assert client.recv(10) == b""
    assert said == ["a request failed in the agent's server: RuntimeError('a fault')"]
    with socket.create_connection((ADDRESS, port)) as client:
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert client.recv(12) == b"HTTP/1.1 200"


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", b"400"),
        (b"PUT / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", b"400"),
        (b"PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", b"400"),
        (b"GET /" + b"x" * MAX_HEAD, b"431"),
        (b"PUT /refuse HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n" + b"x" * 100_000, b"404"),
    ],
)
def test_bad_requests_get_their_answer(
    echo: tuple[int, list[str]], sent: bytes, status: bytes
) -> None:
    with socket.create_connection((ADDRESS, echo[0])) as client:
        client.sendall(sent)
        assert client.recv(12) == b"HTTP/1.1 " + status


def test_a_request_may_come_in_pieces(echo: tuple[int, list[str]]) -> None:
    with socket.create_connection((ADDRESS, echo[0])) as client:
        for piece in (b"PUT / HT", b"TP/1.1\r\nContent-Le", b"ngth: 4\r\n\r", b"\nab", b"cd"):
            client.sendall(piece)
            time.sleep(0.01)
        assert client.recv(1000).endswith(b"\r\n\r\nabcd")


def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server((ADDRESS, 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{port}: Address already"):
            listen((ADDRESS, port))


def in_background(work: Callable[[], bytes]) -> Callable[[], bytes]:
    """Start some work, and return a function that waits for its result."""
    results: list[bytes] = []
    thread = threading.Thread(target=lambda: results.append(work()))
    thread.start()

    def result() -> bytes:
        thread.join(10)
        return results[0]

    return result
