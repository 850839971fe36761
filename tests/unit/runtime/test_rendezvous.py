"""The ranks' key-value store: one node's copy, the head's list, and several nodes together."""

import os
import struct
from queue import SimpleQueue

import pytest

from argosy.runtime.agent.rendezvous.key_values import Entry, decode, encode, pack, unpack
from argosy.runtime.agent.rendezvous.store import MAX_VALUE, KvLog, Rendezvous, rank_of


class Job:
    """Nodes whose messages the test delivers to and from the head."""

    def __init__(self, nodes: int) -> None:
        self.board = KvLog()
        self.outboxes: list[SimpleQueue[bytes]] = [SimpleQueue() for _ in range(nodes)]
        self.nodes = [Rendezvous(node, outbox) for node, outbox in enumerate(self.outboxes)]
        self.places = [0] * nodes

    def up(self, *nodes: int) -> None:
        for node in nodes:
            self.board.put(self.sent(node))

    def sent(self, node: int) -> bytes:
        """What the node sends to the head."""
        outbox = self.outboxes[node]
        return b"".join(outbox.get() for _ in range(outbox.qsize()))

    def down(self, *nodes: int) -> None:
        for node in nodes:
            entries, self.places[node] = self.board.since(self.places[node], 1 << 30)
            self.nodes[node].apply(entries)

    def all(self) -> None:
        everyone = range(len(self.nodes))
        self.up(*everyone)
        self.down(*everyone)


# ---- one node


def test_it_forgets_a_scope_when_all_its_ranks_are_connected() -> None:
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
    assert store.get("/global_/rank_0") is None


def test_a_key_may_be_put_again() -> None:
    store = Rendezvous()
    store.put("/scope/key", b"one")
    store.put("/scope/key", b"two")
    assert store.get("/scope/key") == b"two"


def test_what_was_never_put_is_deleted_without_effect() -> None:
    store = Rendezvous()
    store.delete("/scope/0")
    store.put("/scope/1", b"value")
    store.delete("/scope/0")
    assert store.get("/scope/1") == b"value"


def test_who_begins_anew_before_the_others_are_done_begins_a_generation() -> None:
    store = Rendezvous()
    for rank in range(2):
        store.put(f"/scope/{rank}", b"old")
    store.delete("/scope/0")
    store.put("/scope/rank_0", b"new")
    assert store.get("/scope/1") is None
    store.delete("/scope/1")  # of the generation before
    store.put("/scope/1", b"new")
    assert store.get("/scope/rank_0") == b"new"
    store.put("/scope/0", b"new")
    store.delete("/scope/1")
    assert store.get("/scope/0") == b"new"
    store.delete("/scope/0")
    assert store.get("/scope/0") is None


@pytest.mark.parametrize(
    "path", ["", "/", "/scope", "/scope/", "scope/key", "//key", "/a/" + "b" * 2000]
)
def test_it_refuses_bad_paths(path: str) -> None:
    with pytest.raises(ValueError):
        Rendezvous().put(path, b"")


def test_it_is_bounded() -> None:
    store = Rendezvous(most=8 * 1025)  # each value has a head of a byte
    with pytest.raises(MemoryError):
        store.put("/scope/key", bytes(MAX_VALUE + 1))
    value = os.urandom(1 << 10)
    for number in range(8):
        store.put(f"/scope/{number}", value)
    with pytest.raises(MemoryError):
        store.put("/scope/more", b"x")
    store.put("/scope/0", b"less")
    store.put("/scope/more", b"x")
    for number in range(8):
        store.delete(f"/scope/{number}")
    assert store._total == 0


def test_the_longest_value_comes_back_as_it_was() -> None:
    store = Rendezvous()
    for value in (os.urandom(MAX_VALUE), bytes(MAX_VALUE), b""):
        store.put("/scope/key", value)
        assert store.get("/scope/key") == value


@pytest.mark.parametrize(
    ("key", "rank"), [("3", "3"), ("rank_12", "12"), ("rank_", ""), ("host", ""), ("³", "")]
)
def test_the_rank_of_a_key(key: str, rank: str) -> None:
    assert rank_of(key) == rank


# ---- entries


def test_entries_survive_the_way() -> None:
    entries = [
        Entry(3, 1, 0, "global_", "7", pack(b"value")),
        Entry(0, 1 << 31, 2, "scope", "", pack(b"")),
        Entry(1, 2, 0, "sc\xf6pe", "key", pack(bytes(5000))),
    ]
    message = b"".join(map(encode, entries))
    assert [each for each, _ in decode(message)] == entries
    assert b"".join(raw for _, raw in decode(message)) == message
    assert entries[2].value[0]
    for end in (len(message) - 1, 5):
        with pytest.raises(ValueError, match="cut off"):
            list(decode(message[:end]))


@pytest.mark.parametrize("size", [0, 135, 136, 1000, 136 * 20, 136 * 20 + 1])
def test_values_are_packed_and_unpacked(size: int) -> None:
    records = b"".join(bytes(130) + struct.pack("!HI", 2, each) for each in range(size // 136 + 1))
    for data in (records[:size], os.urandom(size)):
        assert unpack(pack(data)) == data


def test_addresses_as_gloo_puts_them_become_small() -> None:
    records = b"".join(bytes(128) + struct.pack("=q", each) for each in range(2047))
    assert len(pack(records)) * 100 < len(records)


# ---- the head's list


def test_the_list_is_read_in_parts() -> None:
    board = KvLog()
    raws = [encode(Entry(0, n, 0, "scope", str(n), pack(bytes(900)))) for n in range(10)]
    board.put(b"".join(raws))
    parts, place = [], 0
    while place < board.end:
        part, place = board.since(place, 2000)
        parts.append(part)
    assert b"".join(parts) == b"".join(raws)
    assert len(parts) == 5
    assert board.since(place) == (b"", place)
    assert board.since(0, 10)[0] == raws[0]


def test_the_list_is_bounded_and_forgets_what_nobody_needs() -> None:
    board = KvLog(most=1000)

    def of(node: int, generation: int, key: str) -> bytes:
        return encode(Entry(node, 1, generation, "scope", key, pack(bytes(300))))

    board.put(of(0, 0, "0") + of(1, 0, "1"))
    with pytest.raises(MemoryError):
        board.put(of(0, 1, "0") + of(1, 1, "1"))
    board.put(of(0, 0, ""))
    assert board.since(0)[0].startswith(of(0, 0, "0") + of(1, 0, "1"))
    board.put(of(1, 0, ""))
    board.put(of(0, 2, "0") + of(1, 2, "1"))
    assert board.since(0)[0] == of(0, 1, "0") + of(0, 2, "0") + of(1, 2, "1")


# ---- several nodes


def test_what_one_node_puts_the_others_find() -> None:
    job = Job(3)
    value = os.urandom(MAX_VALUE)
    job.nodes[0].put("/global_/0", value)
    job.nodes[1].put("/global_/1", b"one")
    assert job.nodes[2].get("/global_/0") is None
    job.all()
    for node in job.nodes:
        assert (node.get("/global_/0"), node.get("/global_/1")) == (value, b"one")


def test_the_second_init_finds_nothing_of_the_first_whatever_the_order_of_messages() -> None:
    job = Job(2)
    for rank in range(2):
        job.nodes[rank].put(f"/global_/{rank}", b"first")
    job.all()
    for rank in range(2):
        assert job.nodes[rank].get(f"/global_/{1 - rank}") == b"first"
        job.nodes[rank].delete(f"/global_/{rank}")
        assert job.nodes[rank].get(f"/global_/{1 - rank}") is None
    # Node 0 starts the second init before the head learns that node 1 is done with the first.
    job.nodes[0].put("/global_/0", b"second")
    job.up(0)
    job.down(0)
    assert job.nodes[0].get("/global_/1") is None
    job.down(1)
    assert job.nodes[1].get("/global_/0") == b"second"
    job.up(1)
    job.nodes[1].put("/global_/1", b"second")
    job.all()
    assert [node.get("/global_/0") for node in job.nodes] == [b"second"] * 2
    assert [node.get("/global_/1") for node in job.nodes] == [b"second"] * 2


def test_a_slow_node_still_finds_what_the_others_are_done_with() -> None:
    job = Job(2)
    for rank in range(2):
        job.nodes[rank].put(f"/global_/{rank}", b"first")
    job.up(0, 1)
    job.down(0)
    job.nodes[0].delete("/global_/0")
    job.nodes[0].put("/global_/0", b"second")
    job.up(0)
    job.down(1)
    assert job.nodes[1].get("/global_/0") == b"first"
    job.nodes[1].delete("/global_/1")
    assert job.nodes[1].get("/global_/0") == b"second"


def test_many_inits_leave_nothing_behind() -> None:
    job = Job(3)
    for _ in range(20):
        for scope, ranks in (("global_", range(3)), ("local_node1", [1]), ("pair", [0, 1])):
            for rank in ranks:
                job.nodes[rank].put(f"/{scope}/{rank}", b"x" * 100)
            job.all()
            for rank in ranks:
                job.nodes[rank].delete(f"/{scope}/{rank}")
            job.all()
    assert job.board._total == 0
    assert all(node._total <= 303 for node in job.nodes)  # of meetings it was not at
    assert not any(node._unconfirmed for node in job.nodes)


def test_two_nodes_that_put_the_same_key_agree_in_the_end() -> None:
    job = Job(3)
    job.nodes[0].put("/scope/key", b"of 0")
    job.nodes[1].put("/scope/key", b"of 1")
    job.up(1, 0)
    job.nodes[1].put("/scope/key", b"later")
    job.down(1)
    assert job.nodes[1].get("/scope/key") == b"later"
    job.all()
    assert [node.get("/scope/key") for node in job.nodes] == [b"later"] * 3


def test_a_message_that_arrives_twice_does_no_harm() -> None:
    job = Job(2)
    job.nodes[0].put("/scope/0", b"value")
    message = job.sent(0)
    job.board.put(message)
    job.board.put(message)
    job.down(0, 1)
    assert [node.get("/scope/0") for node in job.nodes] == [b"value"] * 2
    job.nodes[0].delete("/scope/0")
    job.all()
    assert job.board._total == 0
