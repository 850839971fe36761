"""Redirects, proxies and authorization of requests, and the errors of failed ones."""

import socket
import ssl
import subprocess
import threading
from pathlib import Path

import pytest
import requests
from registries import Answer, Request, serving

from argosy_common.errors import ArgosyError
from argosy_images.registry.retry import PassingError, UnreachableError, UnusableProxyError
from argosy_images.registry.transport import exchange, read_body

SECRET = {"Authorization": "Bearer s3cret", "Accept": "x/y"}


def test_what_authorizes_stays_on_its_host() -> None:
    with serving(lambda *_: Answer(body=b"blob")) as storage:
        target = f"http://{storage.address}/blob?signature=abc"

        def answer(request: Request, _: int) -> Answer:
            here = {"/far": target, "/near": "/there"}
            if request.path in here:
                return Answer(307, {"Location": here[request.path]})
            return Answer(body=b"near")

        with serving(answer) as registry:
            for path, body in (("far", b"blob"), ("near", b"near")):
                with exchange(f"http://{registry.address}/{path}", SECRET) as response:
                    assert response.content == body
    [moved] = storage.requests
    assert "Authorization" not in moved.headers
    assert moved.headers["Accept"] == "x/y"
    assert [one.headers["Authorization"] for one in registry.requests] == ["Bearer s3cret"] * 3


FAR = "2130706433"
"""127.0.0.1 as a number: another host unless it is resolved."""


@pytest.fixture
def certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    """A certificate for FAR that requests trusts."""
    both = tmp_path / "both.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=far"),
            *("-addext", f"subjectAltName=DNS:{FAR}", "-keyout", both, "-out", tmp_path / "crt"),
        ],
        check=True,
        capture_output=True,
    )
    both.write_bytes(both.read_bytes() + (tmp_path / "crt").read_bytes())
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "crt"))
    monkeypatch.setenv("NO_PROXY", "*")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(both)
    return context


def test_a_registry_elsewhere_sends_nobody_to_this_machine(certificate: ssl.SSLContext) -> None:
    with serving(lambda *_: Answer(body=b"done")) as local:
        port = local.address.rpartition(":")[2]
        for host in ("127.0.0.1", "localhost", "127.9.9.9", "[::1]", "127.1", "[::]"):
            moved = Answer(307, {"Location": f"http://{host}:{port}/shutdown"})
            with (
                serving(lambda *_, moved=moved: moved, certificate) as registry,
                pytest.raises(ArgosyError, match="redirects to this machine"),
                exchange(f"https://{FAR}:{registry.address.rpartition(':')[2]}/v2/", {}),
            ):
                pass
            assert len(registry.requests) == 1
    assert local.requests == []


def test_what_lies_in_netrc_is_for_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("default login joe password s3cret\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    with serving(lambda *_: Answer()) as storage:
        moved = Answer(307, {"Location": f"http://localhost:{storage.address[10:]}/x"})
        with serving(lambda *_: moved) as registry:
            # requests would use this login.
            plain = requests.get(f"http://{storage.address}/plain")
            assert "Authorization" in plain.request.headers
            for headers in (SECRET, {}):
                with exchange(f"http://{registry.address}/", headers) as response:
                    assert response.status_code == 200
    assert all("Authorization" not in one.headers for one in storage.asked("/x"))
    assert [one.headers.get("Authorization") for one in registry.requests] == [
        "Bearer s3cret",
        None,
    ]


def test_loopback_is_not_asked_by_way_of_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    with (
        serving(lambda *_: Answer(body=b"x")) as server,
        exchange(f"http://{server.address}/", SECRET) as response,
    ):
        assert response.content == b"x"


FAR_URL = "https://registry.example.org/v2/"


def without_answer(monkeypatch: pytest.MonkeyPatch, **variables: str) -> UnreachableError:
    """Return the error of a request to a remote registry with these proxy variables."""
    for name in ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UnreachableError) as problem, exchange(FAR_URL, {}, read_s=3):
        pass
    assert str(problem.value).startswith("registry.example.org: ")
    assert "s3cret" not in str(problem.value)
    return problem.value


@pytest.mark.parametrize("variable", ["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"])
def test_a_proxy_of_socks_is_told_as_such(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    for kind in ("socks5", "socks5h", "socks4", "SOCKS"):
        told = without_answer(monkeypatch, **{variable: f"{kind}://me:s3cret@127.0.0.1:1080"})
        assert isinstance(told, UnusableProxyError)
        shown = f"{kind.lower()}://127.0.0.1:1080"
        assert f"the proxy {shown} is a SOCKS proxy, which is not supported" in str(told)


@pytest.mark.parametrize(
    "named",
    [
        "foo://h:1",
        "me:s3cret@h:1",
        "ftp://me:s3cret@h:1",
        "http://",
        "http://s3cret@h:port",
        "http://[::1",
    ],
)
def test_what_is_no_address_of_a_proxy_is_told(monkeypatch: pytest.MonkeyPatch, named: str) -> None:
    told = without_answer(monkeypatch, https_proxy=named)
    assert isinstance(told, UnusableProxyError)
    assert "HTTPS_PROXY or ALL_PROXY is not the address of a proxy; set" in str(told)


def test_what_a_proxy_does_is_told_of_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    told = without_answer(monkeypatch, https_proxy="http://me:s3cret@127.0.0.1:1")
    assert "the proxy http://127.0.0.1:1 does not answer (Connection refused)" in str(told)
    told = without_answer(monkeypatch, https_proxy="proxy.invalid:3128")
    assert "the proxy's name http://proxy.invalid:3128 is unknown" in str(told)
    for answer, why in (
        (b"HTTP/1.1 407 s3cret\r\n\r\n", "rejects the connection (HTTP 407)"),
        (b"s3cret\r\n\r\n", "the connection broke off (BadStatusLine), through the proxy"),
    ):
        with socket.create_server(("127.0.0.1", 0)) as server:

            def serve(server: socket.socket = server, answer: bytes = answer) -> None:
                connection, _ = server.accept()
                with connection:
                    connection.recv(4096)
                    connection.sendall(answer)

            threading.Thread(target=serve, daemon=True).start()
            address = f"http://127.0.0.1:{server.getsockname()[1]}"
            told = without_answer(monkeypatch, all_proxy=address)
            assert why in str(told)
            assert f"the proxy {address}" in str(told)


@pytest.mark.parametrize(
    "target", ["http://registry.example.org/x", "ftp://127.0.0.1/x", "file:///etc/passwd"]
)
def test_nobody_is_sent_to_where_it_is_not_safe(target: str) -> None:
    with (
        serving(lambda *_: Answer(302, {"Location": target})) as server,
        pytest.raises(ArgosyError, match="only https is safe"),
        exchange(f"http://{server.address}/", SECRET),
    ):
        pass


def test_circles_end() -> None:
    with (
        serving(lambda *_: Answer(302, {"Location": "/x"})) as server,
        pytest.raises(ArgosyError, match="redirect loop"),
        exchange(f"http://{server.address}/x", {}),
    ):
        pass
    assert len(server.requests) == 6


def test_silence_and_closed_doors_are_told_from_each_other() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with (
            pytest.raises(UnreachableError, match=f"{address}: no answer in time$"),
            exchange(f"http://{address}/?s=s3cret", {}, read_s=0.2),
        ):
            pass
    with (
        pytest.raises(UnreachableError, match=r"no connection \(Connection refused\)"),
        exchange(f"http://{address}/", {}),
    ):
        pass
    with (
        pytest.raises(UnreachableError, match=r"^registry\.invalid: the host's name is [^/]*$"),
        exchange("https://registry.invalid/?s=s3cret", {}),
    ):
        pass


def test_an_answer_that_breaks_off_is_told() -> None:
    with (
        serving(lambda *_: Answer(body=b"half", length=8)) as server,
        pytest.raises(PassingError, match="the connection broke during the answer") as problem,
        exchange(f"http://{server.address}/?s=s3cret", {}) as response,
    ):
        read_body(response, 100)
    assert "s3cret" not in str(problem.value)
