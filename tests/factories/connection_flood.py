"""Idle, slow and junk connections: ``python3 connection_flood.py NUMBER ADDRESS:PORT...``.

Keeps NUMBER of them open, as many at each place, until its input ends, and makes each anew that is closed.
Prints a line when it has made as many for the first time, and at the end how many it made in all.
"""

import errno
import os
import resource
import selectors
import socket
import sys
import time

SLOW = b"PUT /global_/0 HTTP/1.1\r\nContent-Length: 4000000\r\nA: " + b"x" * 4096
JUNK = (
    b"",
    os.urandom(4096),
    b"GET /" + b"x" * 65536,
    b"POST /argosy/beat HTTP/1.1\r\nContent-Length: 4000000\r\n\r\n" + b"x" * 4096,
    b"PUT /global_/0 HTTP/1.1\r\nContent-Length: 999999999999999999\r\n\r\n",
    b"GET /scope/key HTTP/1.1\r\n" + b"a:\r\n" * 2000 + b"\r\n",
)
PAUSE_S = 1.0


class Stranger:
    """One connection, again and again."""

    def __init__(self, kind: int, place: tuple[str, int]) -> None:
        self.kind = kind  # 0: says nothing; 1: a byte a second; 2: junk
        self.place = place
        self.times = 0
        self.said = 0
        self.socket: socket.socket | None = None

    def connect(self, selector: selectors.BaseSelector) -> None:
        self.times += 1
        self.said = 0
        made = socket.socket()
        made.setblocking(False)
        if made.connect_ex(self.place) not in (0, errno.EINPROGRESS):
            made.close()
            return
        self.socket = made
        selector.register(made, selectors.EVENT_READ, self)
        if self.kind == 2:
            self.say(JUNK[self.times % len(JUNK)])

    def say(self, data: bytes) -> None:
        assert self.socket
        try:
            self.socket.send(data)
        except OSError:
            return

    def listen(self, selector: selectors.BaseSelector) -> None:
        """Connect again when the other side has closed the connection."""
        assert self.socket
        try:
            if self.socket.recv(4096):
                return
        except BlockingIOError:
            return
        except OSError:
            pass
        selector.unregister(self.socket)
        self.socket.close()
        self.socket = None
        self.connect(selector)


def main(number: int, places: list[tuple[str, int]]) -> None:
    """Connect until the input ends."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    selector = selectors.DefaultSelector()
    selector.register(sys.stdin, selectors.EVENT_READ)
    strangers = [Stranger(each % 3, places[each % len(places)]) for each in range(number)]
    for each in strangers:
        each.connect(selector)
    print("all", flush=True)
    spoken = time.monotonic()
    while True:
        for key, _ in selector.select(PAUSE_S):
            if key.fileobj is sys.stdin:
                print(sum(each.times for each in strangers), flush=True)
                return
            key.data.listen(selector)
        if time.monotonic() > spoken + PAUSE_S:
            spoken = time.monotonic()
            for each in strangers:
                if each.socket is None:
                    each.connect(selector)
                elif each.kind == 1:
                    each.say(SLOW[each.said : each.said + 1])
                    each.said += 1


if __name__ == "__main__":
    main(
        int(sys.argv[1]),
        [(host, int(port)) for host, _, port in (each.rpartition(":") for each in sys.argv[2:])],
    )
