"""Real registries on loopback, images for them, and servers that spoil their answers."""

import gzip
import hashlib
import http.client
import io
import json
import os
import socket
import ssl
import subprocess
import tarfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from argosy_images import tools
from argosy_images.oci import architecture
from argosy_images.store.store import Store

OCI = "application/vnd.oci.image"


@contextmanager
def registry(store: Store, folder: Path, **settings: Any) -> Iterator[str]:
    """Run Debian's docker-registry with its data in `folder`; yield its HOST:PORT."""
    folder.mkdir(exist_ok=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    http_settings = {"addr": address, **settings.pop("http", {})}
    whole = {
        "version": 0.1,
        "storage": {"filesystem": {"rootdirectory": str(folder / "data")}},
        "http": http_settings,
        **settings,
    }
    (folder / "registry.json").write_text(json.dumps(whole))
    program = tools.Tools(store).require("docker-registry", print)
    with (folder / "registry.log").open("wb") as log:
        server = subprocess.Popen(
            [program, "serve", folder / "registry.json"],
            # It takes REGISTRY_AUTH_FILE for a setting of its own.
            env={
                k: v
                for k, v in tools.Tools(store).environment().items()
                if k != "REGISTRY_AUTH_FILE"
            },
            stdout=log,
            stderr=log,
        )
    try:
        wait_for(address)
        yield address
    finally:
        server.terminate()
        server.wait()


def wait_for(address: str) -> None:
    host, _, port = address.partition(":")
    for _ in range(100):
        try:
            socket.create_connection((host, int(port)), 1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError(f"nobody listens on {address}")


def push(store: Store, layout: Path, reference: str, *options: str, login: str = "") -> None:
    """Copy an OCI image layout into a registry with skopeo."""
    auth = layout.parent / "nobody.json"
    auth.write_text("{}")
    command = [
        str(tools.Tools(store).require("skopeo", print)),
        "--insecure-policy",
        "copy",
        "--quiet",
    ]
    command += ["--dest-tls-verify=false", *options, *([f"--dest-creds={login}"] if login else [])]
    done = subprocess.run(
        [*command, f"oci:{layout}", f"docker://{reference}"],
        # Its own place for logins may be somebody else's.
        env={**tools.Tools(store).environment(), "REGISTRY_AUTH_FILE": str(auth)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def tar_of(files: Mapping[str, bytes | None], modes: Mapping[str, int] | None = None) -> bytes:
    """Return a tar of these files; None stands for a folder. The default mode is 0755."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.mode = (modes or {}).get(name, 0o755)
            member.type = tarfile.DIRTYPE if content is None else tarfile.REGTYPE
            member.size = len(content or b"")
            archive.addfile(member, io.BytesIO(content or b""))
    return buffer.getvalue()


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def quick_gzip(content: bytes) -> bytes:
    return gzip.compress(content, 1, mtime=0)


def zstd(content: bytes) -> bytes:
    return subprocess.run(
        ["zstd", "--stdout", "--quiet"], input=content, capture_output=True, check=True
    ).stdout


PACKING: Mapping[str, Callable[[bytes], bytes]] = {"gzip": quick_gzip, "zstd": zstd}


class Layout:
    """An OCI image layout in the new `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "blobs" / "sha256").mkdir(parents=True)
        (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')

    def blob(self, content: bytes, kind: str) -> dict[str, Any]:
        digest = digest_of(content)
        (self.folder / "blobs" / digest.replace(":", "/")).write_bytes(content)
        return {"mediaType": f"{OCI}.{kind}", "digest": digest, "size": len(content)}

    def document(self, value: Any, kind: str) -> dict[str, Any]:
        return self.blob(json.dumps(value).encode(), kind)

    def image(
        self,
        *layers: bytes,
        machine: str | None = None,
        packed: str = "gzip",
        **config: Any,
    ) -> dict[str, Any]:
        """Add an image; return its manifest's descriptor, with the platform."""
        machine = machine or architecture()
        described = {
            "architecture": machine,
            "os": "linux",
            "config": config,
            "rootfs": {"type": "layers", "diff_ids": [digest_of(layer) for layer in layers]},
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": f"{OCI}.manifest.v1+json",
            "config": self.document(described, "config.v1+json"),
            "layers": [
                self.blob(PACKING[packed](layer), f"layer.v1.tar+{packed}") for layer in layers
            ],
        }
        platform = {"os": "linux", "architecture": machine}
        return {**self.document(manifest, "manifest.v1+json"), "platform": platform}

    def index(self, *images: dict[str, Any]) -> dict[str, Any]:
        """Add an index of several images."""
        content = {
            "schemaVersion": 2,
            "mediaType": f"{OCI}.index.v1+json",
            "manifests": list(images),
        }
        return self.document(content, "index.v1+json")

    def finish(self, entry: dict[str, Any]) -> Path:
        """Make this manifest or index the layout's image."""
        entry = {name: value for name, value in entry.items() if name != "platform"}
        (self.folder / "index.json").write_text(
            json.dumps({"schemaVersion": 2, "manifests": [entry]})
        )
        return self.folder


@dataclass
class Answer:
    """The answer to a request."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    length: int | None = None
    """A wrong Content-Length; the connection then ends early."""
    silence: float = 0.0
    """Seconds until the connection ends."""


@dataclass
class Request:
    """A received request."""

    method: str
    path: str
    headers: Mapping[str, str]


Spoil = Callable[[Request, int, Callable[[], Answer]], Answer]
"""Returns the answer to the n-th request (from 1) of a path, perhaps the registry's."""


def ask(upstream: str, request: Request) -> Answer:
    connection = http.client.HTTPConnection(upstream, timeout=30)
    connection.request(request.method, request.path, headers=dict(request.headers))
    response = connection.getresponse()
    dropped = ("content-length", "transfer-encoding", "connection")
    headers = {key: value for key, value in response.getheaders() if key.lower() not in dropped}
    answer = Answer(response.status, headers, response.read())
    connection.close()
    return answer


class Server:
    """An HTTP or HTTPS server on loopback; `requests` are the received ones."""

    def __init__(
        self, answer: Callable[[Request, int], Answer], tls: ssl.SSLContext | None = None
    ) -> None:
        self.requests: list[Request] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                # udocker sends Accept several times.
                names = dict.fromkeys(self.headers)
                headers = {name: ", ".join(self.headers.get_all(name, [])) for name in names}
                request = Request(self.command, self.path, headers)
                outer.requests.append(request)
                number = sum(one.path == self.path for one in outer.requests)
                self.body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                if self.body:
                    request.headers = {**request.headers, "_body": self.body.decode()}
                self._give(answer(request, number))

            do_POST = do_GET  # noqa: N815

            def _give(self, given: Answer) -> None:
                self.send_response(given.status)
                for name, value in given.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(given.length or len(given.body)))
                self.send_header("Connection", "close")
                self.end_headers()
                # A client may close the connection early.
                with suppress(ConnectionError):
                    self.wfile.write(given.body)
                    time.sleep(given.silence)
                self.close_connection = True

            def log_message(self, *arguments: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        if tls:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.address = f"127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def asked(self, part: str) -> list[Request]:
        """Return the requests whose path contains this."""
        return [one for one in self.requests if part in one.path]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def serving(
    answer: Callable[[Request, int], Answer], tls: ssl.SSLContext | None = None
) -> Iterator[Server]:
    """Run a server with these answers."""
    server = Server(answer, tls)
    try:
        yield server
    finally:
        server.close()


def between(upstream: str, spoil: Spoil) -> Any:
    """Run a server in front of a registry that spoils its answers."""
    return serving(lambda request, number: spoil(request, number, lambda: ask(upstream, request)))


def no_logins(folder: Path) -> dict[str, str]:
    """Return an environment without any login."""
    path = folder / "no-logins.json"
    path.write_text("{}")
    return {**os.environ, "REGISTRY_AUTH_FILE": str(path)}
