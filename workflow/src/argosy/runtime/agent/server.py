"""The head's HTTP server: Horovod's rendezvous, and the reports of the agents."""

from __future__ import annotations

import hmac
import ipaddress
import socket
import socketserver
import sys
import threading
from http.server import BaseHTTPRequestHandler
from typing import Any, Callable

from .coordinator import Coordinator
from .messages import Report
from .peers import admitted, is_loopback, plain_address
from .rendezvous import MAX_VALUE, Rendezvous
from .settings import Settings

BEAT_PATH = "/argosy/beat"
TOKEN_HEADER = "X-Argosy-Token"
_OWN_PREFIX = "/argosy/"
_MAX_STRANGERS = 20  # to be named in the log


class Server(socketserver.ThreadingTCPServer):
    """Serves on the head's address and port only. Raises OSError when it cannot.

    Args:
        settings: where to serve, and whom.
        coordinator: gets the agents' reports.
        say: prints a line for the user.
    """

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 1024

    def __init__(
        self, settings: Settings, coordinator: Coordinator, say: Callable[[str], None]
    ) -> None:
        self.settings = settings
        self.coordinator = coordinator
        self.rendezvous = Rendezvous()
        self._say = say
        self._strangers: set[str] = set()
        version = ipaddress.ip_address(settings.head_address).version
        self.address_family = socket.AF_INET6 if version == 6 else socket.AF_INET
        super().__init__((settings.head_address, settings.head_port), _Handler)

    def server_bind(self) -> None:
        """Bind a port that reserve_port.py still holds."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        super().server_bind()

    def start(self) -> None:
        """Serve in the background until the process ends."""
        threading.Thread(target=self.serve_forever, name="server", daemon=True).start()

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Turn strangers away before they cost a thread."""
        address = plain_address(client_address[0])
        known = address in self.settings.node_addresses or is_loopback(address)
        if not known and address not in self._strangers and len(self._strangers) < _MAX_STRANGERS:
            self._strangers.add(address)
            self._say(f"refused a connection from {address}: not an address of the job's nodes")
        return known

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A broken connection is the client's affair: its agent or Horovod tries again."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            self._say(f"a request failed in the head's server: {error!r}")


class _Handler(BaseHTTPRequestHandler):
    server: Server
    timeout = 5.0  # seconds for each read

    def do_GET(self) -> None:
        if self._admitted():
            value = self.server.rendezvous.get(self.path)
            self._answer(404 if value is None else 200, value or b"")

    def do_PUT(self) -> None:
        body = self._body() if self._admitted() else None
        if body is not None:
            self.server.rendezvous.put(self.path, body)
            self._answer(200)

    def do_DELETE(self) -> None:
        if self._admitted():
            self.server.rendezvous.delete(self.path)
            self._answer(200)

    def do_POST(self) -> None:
        if not self._admitted():
            return
        token = self.headers.get(TOKEN_HEADER, "")
        if not hmac.compare_digest(token.encode(), self.server.settings.token.encode()):
            self._answer(403)
            return
        body = self._body()
        if body is not None:
            order = self.server.coordinator.beat(Report.decode(body))
            self._answer(200, order.encode())

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except ValueError:
            self._answer(400)
        except MemoryError:
            self._answer(413)

    def _admitted(self) -> bool:
        peer, server = self.client_address, self.connection.getsockname()
        beat = self.command == "POST"
        allowed = admitted(
            (peer[0], peer[1]), (server[0], server[1]), self.server.settings.node_addresses
        )
        if not allowed:
            self._answer(403)
        elif beat != (self.path == BEAT_PATH) or (not beat and self.path.startswith(_OWN_PREFIX)):
            self._answer(404)
            allowed = False
        return allowed

    def _body(self) -> bytes | None:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal():
            self._answer(411)
        elif int(length) > MAX_VALUE:
            self._answer(413)
        else:
            body = self.rfile.read(int(length))
            if len(body) == int(length):
                return body
            self._answer(400)
        return None

    def _answer(self, code: int, body: bytes = b"") -> None:
        self.close_connection = True
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: every rank asks a hundred times a second."""
