"""The agent's parts that need no processes."""

import ipaddress
import os
import socket
import struct
import threading

import pytest

from argosy.runtime.agent.coordinator import Coordinator
from argosy.runtime.agent.failure import (
    ABORT,
    EXIT,
    OTHER,
    SIGNAL,
    VANISHED,
    Failure,
    Sighting,
    ended_by_signal,
    ended_with_code,
    root_cause,
)
from argosy.runtime.agent.messages import Order, Outcome, Report
from argosy.runtime.agent.output import MAX_LINE, LineSplitter
from argosy.runtime.agent.peers import admitted, find_owner, socket_owner
from argosy.runtime.agent.rendezvous import MAX_VALUE, Rendezvous


def failure(kind: str, node: int = 0) -> Failure:
    return Failure(node, None if kind == VANISHED else node, kind, 1.0, kind)


@pytest.mark.parametrize(
    ("seen", "root"),
    [
        ([(EXIT, 0.0)], EXIT),
        ([(EXIT, 0.0), (SIGNAL, 0.9)], SIGNAL),
        ([(EXIT, 0.0), (SIGNAL, 1.1)], EXIT),
        ([(EXIT, 0.0), (OTHER, 0.5)], OTHER),
        ([(ABORT, 0.0), (SIGNAL, 0.5)], SIGNAL),
        ([(EXIT, 0.0), (ABORT, 0.5)], ABORT),
        ([(EXIT, 0.5), (VANISHED, 0.0)], VANISHED),
        ([(EXIT, 0.0), (VANISHED, 0.5)], EXIT),
        ([(SIGNAL, 0.5), (VANISHED, 0.0)], SIGNAL),
        ([(SIGNAL, 0.3), (SIGNAL, 0.2)], SIGNAL),
    ],
)
def test_root_cause(seen: list[tuple[str, float]], root: str) -> None:
    sightings = [Sighting(failure(kind), 100 + when) for kind, when in seen]
    assert root_cause(sightings).kind == root
    assert root_cause(sightings[::-1]).kind == root


def test_of_equals_the_first_is_the_cause() -> None:
    sightings = [Sighting(failure(SIGNAL, node), 100.0 - node / 10) for node in range(3)]
    assert root_cause(sightings).node == 2


def test_causes() -> None:
    assert ended_by_signal(9) == ("killed by signal 9 (SIGKILL)", SIGNAL)
    assert ended_by_signal(6) == ("killed by signal 6 (SIGABRT)", ABORT)
    assert ended_with_code(3) == ("exit code 3", EXIT)
    assert ended_with_code(137) == ("exit code 137 (as a shell reports SIGKILL)", EXIT)


def test_messages_survive_the_way() -> None:
    report = Report(3, ended=True, cancelled=True, failures=(failure(EXIT),))
    assert Report.decode(report.encode()) == report
    for order in (
        Order(start=True),
        Order(stop=True, failure=failure(SIGNAL)),
        Order(True, True, failure(EXIT), Outcome("failed", failure(EXIT))),
        Order(outcome=Outcome("completed")),
    ):
        assert Order.decode(order.encode()) == order


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b"null", b'{"node": []}', b"\xff"])
def test_what_is_no_message_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        Report.decode(data)
    with pytest.raises(ValueError):
        Order.decode(data)


def test_the_job_completes_when_all_nodes_ended_and_it_is_accepted() -> None:
    woken = threading.Event()
    coordinator = Coordinator(2, 300, accept=lambda: None, changed=woken.set)
    assert coordinator.beat(Report(0)) == Order()
    assert not woken.is_set()
    assert coordinator.beat(Report(1)).start
    assert woken.is_set()
    assert coordinator.beat(Report(0, ended=True)).outcome is None
    assert coordinator.beat(Report(1, ended=True)).outcome == Outcome("completed")
    assert not coordinator.all_informed()
    coordinator.beat(Report(0, ended=True, informed=True))
    coordinator.beat(Report(1, ended=True, informed=True))
    assert coordinator.all_informed()
    with pytest.raises(ValueError):
        coordinator.beat(Report(2))


def test_what_is_not_accepted_has_failed() -> None:
    coordinator = Coordinator(1, 300, accept=lambda: failure(OTHER))
    order = coordinator.beat(Report(0, ended=True))
    assert order.outcome == Outcome("failed", failure(OTHER))


def test_a_failure_stops_all_at_once_and_is_settled_when_they_have_ended() -> None:
    coordinator = Coordinator(2, 300, accept=lambda: None)
    coordinator.beat(Report(1))
    order = coordinator.beat(Report(0, ended=True, failures=(failure(EXIT),)))
    assert (order.stop, order.outcome) == (True, None)
    order = coordinator.beat(Report(1, failures=(failure(SIGNAL, 1),)))
    assert (order.failure, order.outcome) == (failure(SIGNAL, 1), None)
    assert coordinator.beat(Report(1, ended=True, cancelled=True)).outcome == Outcome("cancelled")


def test_rendezvous_forgets_a_scope_when_all_its_ranks_are_connected() -> None:
    store = Rendezvous()
    for rank in range(2):
        store.put(f"/global_/{rank}", b"%d" % rank)
    store.put("/global_/rank_0", b"host")
    store.delete("/global_/0")
    assert store.get("/global_/0") == b"0"
    store.delete("/global_/1")
    assert store.get("/global_/0") is None
    store.put("/global_/0", b"again")
    assert store.get("/global_/0") == b"again"


@pytest.mark.parametrize(
    "path", ["", "/", "/scope", "/scope/", "scope/key", "//key", "/a/" + "b" * 2000]
)
def test_rendezvous_refuses_bad_paths(path: str) -> None:
    with pytest.raises(ValueError):
        Rendezvous().put(path, b"")


def test_rendezvous_is_bounded() -> None:
    store = Rendezvous()
    with pytest.raises(MemoryError):
        store.put("/scope/key", bytes(MAX_VALUE + 1))
    value = bytes(MAX_VALUE)
    for number in range(256):
        store.put(f"/scope/{number}", value)
    with pytest.raises(MemoryError):
        store.put("/scope/more", b"x")
    store.put("/scope/0", b"less")
    store.put("/scope/more", b"x")


def row(local: str, remote: str, uid: int) -> str:
    return f"  1: {local} {remote} 01 00000000:00000000 00:00000000 00000000 {uid} 0 1 1 0"


def hexadecimal(address: str, port: int) -> str:
    packed = ipaddress.ip_address(address).packed
    words = struct.unpack(f"={len(packed) // 4}I", packed)
    return "".join(f"{word:08X}" for word in words) + f":{port:04X}"


@pytest.mark.parametrize(
    ("local", "remote"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::ffff:10.0.0.1", "::ffff:10.0.0.2"),
        ("fe80::1", "fe80::2"),
    ],
)
def test_the_owner_of_a_socket_is_found_in_the_kernels_table(local: str, remote: str) -> None:
    plain = [each.replace("::ffff:", "") for each in (local, remote)]
    table = [
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid",
        row(hexadecimal(remote, 80), hexadecimal(local, 5000), 1),
        row(hexadecimal(local, 5000), hexadecimal(remote, 81), 2),
        row(hexadecimal(local, 5000), hexadecimal(remote, 80), 1234),
    ]
    assert find_owner(table, (plain[0], 5000), (plain[1], 80)) == 1234
    assert find_owner(table, (plain[0], 5001), (plain[1], 80)) is None


def test_the_kernels_own_table_is_read() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        with socket.create_connection(server.getsockname()) as client:
            assert socket_owner(client.getsockname(), server.getsockname()) == os.getuid()
        assert socket_owner(("127.0.0.1", 1), server.getsockname()) is None


def test_who_is_admitted() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        here = server.getsockname()
        with socket.create_connection(here) as client:
            assert admitted(client.getsockname(), here, [])
    assert not admitted(("127.0.0.1", 1), here, ["127.0.0.1"])
    assert not admitted(("::1", 1), ("::1", 80), ["::1"])
    assert not admitted(("10.0.0.1", 1), ("10.0.0.1", 80), ["10.0.0.1"])
    assert admitted(("10.0.0.2", 1), ("10.0.0.1", 80), ["10.0.0.1", "10.0.0.2"])
    assert admitted(("::ffff:10.0.0.2", 1), ("10.0.0.1", 80), ["10.0.0.2"])
    assert not admitted(("10.0.0.3", 1), ("10.0.0.1", 80), ["10.0.0.1", "10.0.0.2"])


def test_lines_come_whole_whatever_the_pieces() -> None:
    splitter = LineSplitter()
    assert splitter.feed(b"a") == []
    assert splitter.feed(b"b\nc\n\nd") == [b"ab\n", b"c\n", b"\n"]
    assert splitter.rest() == [b"d\n"]
    assert splitter.rest() == []


def test_a_line_without_end_is_passed_on_in_pieces_of_whole_characters() -> None:
    splitter = LineSplitter()
    text = ("x" + "€" * MAX_LINE).encode()
    pieces = [*splitter.feed(text), *splitter.rest()]
    assert b"".join(piece[:-1] for piece in pieces) == text
    assert all(len(piece) <= MAX_LINE + 1 and piece[:-1].decode() for piece in pieces)
