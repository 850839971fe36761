"""Logins to real registries by password, by token, and by TLS with a site's own certificate."""

import base64
import hashlib
import json
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from registries import Answer, Layout, Request, Server, push, registry, serving, tar_of

from argosy_common.errors import ArgosyError
from argosy_images import tools
from argosy_images.registry.client import Client
from argosy_images.registry.pulling import Pulled, pull
from argosy_images.registry.reference import Reference
from argosy_images.registry.retry import Patience
from argosy_images.store.store import Store

pytestmark = pytest.mark.container

PASSWORD = "pass: word"
HTPASSWD = "joe:$2y$04$cF4YKXkdli68CFPx3Af8j.hxMa0KEvK1qJKswfQlVM3TyX1XFGNEu\n"
ISSUER, SERVICE = "the issuer", "the service"
HOST = "registry.example.org"


def layout(folder: Path) -> Path:
    image = Layout(folder / "layout")
    return image.finish(image.image(tar_of({"one": b"1"}), tar_of({"two": b"2"})))


class Somebody:
    """A user with a file of logins and a store."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.file = folder / "auth.json"
        monkeypatch.setenv("REGISTRY_AUTH_FILE", str(self.file))
        self.registries = folder / "registries.conf"
        monkeypatch.setenv("CONTAINERS_REGISTRIES_CONF", str(self.registries))
        self.write({})

    def write(self, auths: dict[str, Any]) -> None:
        self.file.write_text(json.dumps({"auths": auths}))

    def login(self, host: str, password: str = PASSWORD) -> None:
        pair = base64.b64encode(f"joe:{password}".encode()).decode()
        self.write({host: {"auth": pair}})
        # The tests' registries are on this machine, which registries.conf must allow.
        address = host.partition("/")[0]
        self.registries.write_text(f'[[registry]]\nlocation = "{address}"\ninsecure = true\n')

    def pull(self, reference: str) -> Pulled:
        place = self.folder / f"pulled-{time.monotonic_ns()}"
        client = Client(Reference.parse(reference), Patience(()))
        client.reach()
        return pull(Store(self.folder / "store"), client, place, print)

    def refused(self, reference: str, *parts: str) -> None:
        with pytest.raises(ArgosyError) as problem:
            self.pull(reference)
        assert all(part in str(problem.value) for part in parts), str(problem.value)
        assert PASSWORD not in str(problem.value)
        assert not list((self.folder / "store").rglob("*.part"))


@pytest.fixture
def somebody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Somebody:
    return Somebody(tmp_path, monkeypatch)


def test_by_password(project_store: Store, tmp_path: Path, somebody: Somebody) -> None:
    (tmp_path / "htpasswd").write_text(HTPASSWD)
    auth = {"htpasswd": {"realm": "x", "path": str(tmp_path / "htpasswd")}}
    with registry(project_store, tmp_path / "registry", auth=auth) as address:
        push(project_store, layout(tmp_path), f"{address}/team/tool:1", login=f"joe:{PASSWORD}")
        reference = f"{address}/team/tool:1"
        somebody.refused(reference, "the registry requires a login", f"podman login {address}")
        somebody.login(address, "wrong word")
        somebody.refused(reference, "denies access to joe (HTTP 401)", str(somebody.file))
        somebody.login(f"{address}/other")
        somebody.refused(reference, "the registry requires a login")
        somebody.login(f"{address}/team")
        assert somebody.pull(reference).reference.digest
        somebody.refused(f"{address}/team/none:1", "no such name or tag, MANIFEST_UNKNOWN")
        # Local ports get no login unless registries.conf allows it.
        somebody.registries.unlink()
        somebody.refused(reference, "any user may listen there", str(somebody.registries))


def test_who_is_not_asked_needs_no_login(
    project_store: Store, tmp_path: Path, somebody: Somebody
) -> None:
    with registry(project_store, tmp_path / "registry") as address:
        push(project_store, layout(tmp_path), f"{address}/team/tool:1")
        somebody.file.write_text("damaged")
        assert somebody.pull(f"{address}/team/tool:1").reference.digest


def openssl(store: Store, *arguments: str, content: bytes | None = None) -> bytes:
    program = str(tools.Tools(store).require("openssl", print))
    done = subprocess.run([program, *arguments], input=content, capture_output=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def certificate(store: Store, folder: Path, host: str) -> tuple[Path, Path]:
    """Make a key and a self-signed certificate."""
    key, certified = folder / "key.pem", folder / "certificate.pem"
    options = ["-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={host}"]
    options += ["-addext", f"subjectAltName=DNS:{host}", "-keyout", str(key)]
    openssl(store, "req", "-x509", *options, "-out", str(certified))
    return key, certified


def test_whoever_listens_on_this_machine_gets_no_login(somebody: Somebody) -> None:
    """Another user may request a password at the port of a stopped registry."""

    def ask(request: Request, _: int) -> Answer:
        return Answer(401, {"WWW-Authenticate": 'Basic realm="x"'}, b"{}")

    with serving(ask) as server:
        host = server.address
        somebody.login(host)
        somebody.registries.unlink()
        somebody.refused(f"{host}/team/tool:1", "any user may listen there")
        assert server.requests
        assert not [each for each in server.requests if "Authorization" in each.headers]


class TokenServer:
    """Issues tokens as documented for registries: to joe with access, to anonymous users without."""

    def __init__(self, store: Store, folder: Path) -> None:
        self.store = store
        self.key, self.certificate = certificate(store, folder, "tokens")
        der = openssl(store, "x509", "-in", str(self.certificate), "-outform", "DER")
        self.chain = [base64.b64encode(der).decode()]
        self.lifetime = 60
        self.given = 0

    def answer(self, request: Request, _: int) -> Answer:
        query = parse_qs(urlsplit(request.path).query) or parse_qs(request.headers["_body"])
        pair = base64.b64encode(f"joe:{PASSWORD}".encode()).decode()
        knows = request.headers.get("Authorization") == f"Basic {pair}"
        knows = knows or query.get("refresh_token") == ["an identity"]
        if not knows and "Authorization" in request.headers:
            return Answer(401, {}, b"{}")
        assert query["service"] == [SERVICE]
        self.given += 1
        allowed = self.access(query["scope"][0]) if knows else []
        body = json.dumps({"token": self.token(allowed)}).encode()
        return Answer(200, {"Content-Type": "application/json"}, body)

    def access(self, scope: str) -> list[dict[str, Any]]:
        kind, name, actions = scope.split(":")
        return [{"type": kind, "name": name, "actions": actions.split(",")}]

    def token(self, access: list[dict[str, Any]]) -> str:
        now = int(time.time())
        times = {"exp": now + self.lifetime, "nbf": now - 1, "iat": now}
        identity = hashlib.sha256(str(time.monotonic_ns()).encode()).hexdigest()
        claims = {"iss": ISSUER, "aud": SERVICE, "sub": "joe", "jti": identity, "access": access}
        header = {"typ": "JWT", "alg": "RS256", "x5c": self.chain}
        signed = f"{_packed(header)}.{_packed({**claims, **times})}"
        options = ["-sha256", "-sign", str(self.key)]
        signature = openssl(self.store, "dgst", *options, content=signed.encode())
        return f"{signed}.{_plain(signature)}"


def _packed(value: Any) -> str:
    return _plain(json.dumps(value).encode())


def _plain(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


@pytest.fixture
def by_token(project_store: Store, tmp_path: Path) -> Iterator[tuple[str, TokenServer, Server]]:
    """Serve a registry that requires tokens, and its token server."""
    tokens = TokenServer(project_store, tmp_path)
    with serving(tokens.answer) as server:
        settings = {"realm": f"http://{server.address}/token", "service": SERVICE}
        settings |= {"issuer": ISSUER, "rootcertbundle": str(tokens.certificate)}
        auth = {"token": settings}
        with registry(project_store, tmp_path / "registry", auth=auth) as address:
            push(project_store, layout(tmp_path), f"{address}/team/tool:1", login=f"joe:{PASSWORD}")
            tokens.given = 0
            server.requests.clear()
            yield f"{address}/team/tool:1", tokens, server


def test_by_token(by_token: tuple[str, TokenServer, Server], somebody: Somebody) -> None:
    reference, tokens, server = by_token
    host = reference.partition("/")[0]
    somebody.refused(reference, "the registry requires a login", f"podman login {host}")
    somebody.login(host, "wrong word")
    somebody.refused(reference, "issues no token (HTTP 401)", "joe", str(somebody.file))
    somebody.login(host)
    tokens.given = 0
    assert somebody.pull(reference).reference.digest
    # One token suffices for the whole image.
    assert tokens.given == 1
    somebody.write({host: {"identitytoken": "an identity"}})
    assert somebody.pull(reference).reference.digest
    assert server.requests[-1].method == "POST"


def test_a_token_that_gets_too_old_in_a_pull_is_replaced(
    by_token: tuple[str, TokenServer, Server], somebody: Somebody
) -> None:
    reference, tokens, _ = by_token
    somebody.login(reference.partition("/")[0])
    client = Client(Reference.parse(reference), Patience(()))
    tokens.lifetime = -70
    # The registry tolerates a minute of clock difference.
    somebody.refused(reference, "denies access to joe (HTTP 401)")
    tokens.lifetime, tokens.given = -54, 0
    kinds = ("application/vnd.oci.image.manifest.v1+json",)
    end = time.monotonic() + 30
    while tokens.given < 2:
        assert client.manifest("1", kinds).content
        assert time.monotonic() < end
        tokens.lifetime = 60
        time.sleep(0.2)


def test_by_tls_only_with_a_certificate_that_is_trusted(
    project_store: Store, tmp_path: Path, somebody: Somebody, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, certified = certificate(project_store, tmp_path, HOST)
    (tmp_path / "htpasswd").write_text(HTPASSWD)
    auth = {"htpasswd": {"realm": "x", "path": str(tmp_path / "htpasswd")}}
    settings = {"tls": {"certificate": str(certified), "key": str(key)}}
    look_up = socket.getaddrinfo

    def at_home(host: str, *arguments: Any, **options: Any) -> Any:
        return look_up("127.0.0.1" if host == HOST else host, *arguments, **options)

    with registry(project_store, tmp_path / "registry", auth=auth, http=settings) as address:
        push(project_store, layout(tmp_path), f"{address}/team/tool:1", login=f"joe:{PASSWORD}")
        monkeypatch.setattr(socket, "getaddrinfo", at_home)
        for name in ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.delenv(name, raising=False)
        host = f"{HOST}:{address.rpartition(':')[2]}"
        somebody.login(host)
        refused = ("no secure connection", "self-signed certificate", "REQUESTS_CA_BUNDLE")
        somebody.refused(f"{host}/team/tool:1", *refused)
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certified))
        assert somebody.pull(f"{host}/team/tool:1").reference.digest
