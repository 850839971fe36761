"""Time single bytes there and back: `echo.py serve PORT`, `echo.py ask ADDRESS PORT` prints seconds."""

import socket
import sys
import time

TIMES = 20
PATIENCE_S = 20


def serve(port):
    with socket.create_server(("", int(port))) as server:
        connection, _ = server.accept()
        while byte := connection.recv(1):
            connection.sendall(byte)


def ask(address, port):
    with connected(address, int(port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        print(min(round_trip_s(connection) for _ in range(TIMES)))


def connected(address, port):
    """A connection, as soon as somebody serves."""
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            return socket.create_connection((address, port))
        except ConnectionRefusedError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)


def round_trip_s(connection):
    since = time.monotonic()
    connection.sendall(b"x")
    connection.recv(1)
    return time.monotonic() - since


if __name__ == "__main__":
    {"serve": serve, "ask": ask}[sys.argv[1]](*sys.argv[2:])
