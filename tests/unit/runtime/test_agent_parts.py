"""Parts of the agent that need no processes."""

import ipaddress
import os
import socket
import struct
import threading

import pytest

from argosy.runtime.agent.coordination.coordinator import Coordinator
from argosy.runtime.agent.coordination.failure import (
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
from argosy.runtime.agent.processes.output import MAX_LINE, LineSplitter
from argosy.runtime.agent.sockets import connections_in
from argosy.runtime.agent.transport import peers
from argosy.runtime.agent.transport.messages import Order, Outcome, Report
from argosy.runtime.agent.transport.peers import Owners, find_owner


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
    sightings = [
        Sighting(failure(kind, node), 100 + when) for node, (kind, when) in enumerate(seen)
    ]
    assert root_cause(sightings).kind == root
    assert root_cause(sightings[::-1]).kind == root


def test_a_rank_that_called_mpi_abort_may_crash_for_it() -> None:
    crash, peer = Sighting(failure(SIGNAL, 1), 100.0), Sighting(failure(EXIT), 100.1)
    abort = Sighting(failure(ABORT, 1), 100.2)
    assert root_cause([crash, peer, abort]) is abort.failure
    assert root_cause([crash, peer, Sighting(failure(ABORT, 2), 100.2)]) is crash.failure


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
    assert find_owner(connections_in(table), (plain[0], 5000), (plain[1], 80)) == 1234
    assert find_owner(connections_in(table), (plain[0], 5001), (plain[1], 80)) is None


@pytest.mark.parametrize("way", ["sock_diag", "tables"])
@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_the_kernel_itself_is_asked(
    address: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    owners = Owners()
    if way == "tables":
        monkeypatch.setattr(owners, "_ask_kernel", not_offered)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, 0), family=family) as server:
        here = server.getsockname()[:2]
        client = socket.create_connection(here)
        there = client.getsockname()[:2]
        assert owners.owner(there, here) == os.getuid()
        assert owners.is_ours(there, here)
        assert owners.owner((address, 1), here) is None
        assert not owners.is_ours((address, 1), here)
        # A closed socket appears as root's.
        client.close()
        assert owners.owner(there, here) is None


def test_below_proot_the_kernel_says_who_we_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """There getuid() returns root, but the kernel reports the same owner for both ends."""
    owners = Owners()
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        accepted, _ = server.accept()
        ends = client.getsockname(), server.getsockname()
        monkeypatch.setattr(os, "getuid", lambda: 987654)
        assert owners.is_ours(*ends)
        client.close()
        accepted.close()


def not_offered(*_: object) -> None:
    raise OSError


def test_a_closed_socket_in_the_kernels_table_is_nobodys() -> None:
    ends = ("127.0.0.1", 5000), ("127.0.0.1", 80)
    closed = row(*(hexadecimal(*end) for end in ends), 0).replace(" 0 1 1 0", " 0 0 1 0")
    assert find_owner(connections_in([closed]), *ends) is None


def test_addresses_in_their_usual_spelling() -> None:
    assert peers.plain_address("::ffff:10.0.0.2") == "10.0.0.2"
    assert peers.plain_address("fe80::1%eth0") == "fe80::1"


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
