"""Challenges of registries, and their tokens."""

import base64
import json
from urllib.parse import parse_qs, urlsplit

import pytest
from pydantic import SecretStr
from registries import Answer, serving

from argosy_common.errors import ArgosyError
from argosy_images.registry.credentials import Challenge, Login, fetch_token, read_challenge
from argosy_images.registry.retry import PassingError

JOE = Login("joe", SecretStr("s3cret"), "/home/joe/auth.json")


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ('Basic realm="x"', Challenge("basic", "x", "", "")),
        (
            'Bearer realm="https://a.org/t",service="s.org",scope="repository:a/b:pull,push"',
            Challenge("bearer", "https://a.org/t", "s.org", "repository:a/b:pull,push"),
        ),
        ('bearer  Realm="https://a.org/t"', Challenge("bearer", "https://a.org/t", "", "")),
        (
            'Basic realm="x", Bearer realm="https://a.org/t",service=s',
            Challenge("bearer", "https://a.org/t", "s", ""),
        ),
        ("Negotiate", None),
        ("", None),
    ],
)
def test_challenges(header: str, expected: Challenge | None) -> None:
    assert read_challenge(header) == expected


def gives(token: object, status: int = 200) -> Answer:
    return Answer(status, {"Content-Type": "application/json"}, json.dumps(token).encode())


def test_a_login_goes_in_the_header_and_a_token_of_everybody_needs_none() -> None:
    with serving(lambda *_: gives({"token": "t1"})) as server:
        challenge = Challenge("bearer", f"http://{server.address}/t?x=1", "s", "repository:a:pull")
        assert fetch_token(challenge, JOE) == "Bearer t1"
        assert fetch_token(challenge, None) == "Bearer t1"
    with_login, without = server.requests
    query = parse_qs(urlsplit(with_login.path).query)
    assert query == {"x": ["1"], "service": ["s"], "scope": ["repository:a:pull"]}
    assert with_login.headers["Authorization"] == (
        "Basic " + base64.b64encode(b"joe:s3cret").decode()
    )
    assert "Authorization" not in without.headers


def test_an_identity_token_is_posted() -> None:
    login = Login("<token>", SecretStr("s3cret"), "x")
    with serving(lambda *_: gives({"access_token": "t2"})) as server:
        challenge = Challenge("bearer", f"http://{server.address}/t", "s", "repository:a:pull")
        assert fetch_token(challenge, login) == "Bearer t2"
    [request] = server.requests
    assert (request.method, request.path) == ("POST", "/t")
    assert "Authorization" not in request.headers
    assert parse_qs(request.headers["_body"]) == {
        "grant_type": ["refresh_token"],
        "service": ["s"],
        "client_id": ["argosy"],
        "scope": ["repository:a:pull"],
        "refresh_token": ["s3cret"],
    }


def test_a_refusal_names_the_login_and_not_its_secret() -> None:
    with serving(lambda *_: gives({"details": "s3cret"}, 401)) as server:
        challenge = Challenge("bearer", f"http://{server.address}/t", "s", "")
        with pytest.raises(ArgosyError) as problem:
            fetch_token(challenge, JOE)
    assert "the login of joe from /home/joe/auth.json may be wrong" in str(problem.value)
    assert "s3cret" not in str(problem.value)


@pytest.mark.parametrize("content", [[], {}, {"token": 3}, {"token": "a\r\nX: y"}, "x"])
def test_what_is_no_token_is_not_used(content: object) -> None:
    with serving(lambda *_: gives(content)) as server:
        challenge = Challenge("bearer", f"http://{server.address}/t", "s", "")
        with pytest.raises(ArgosyError, match="answers without a token"):
            fetch_token(challenge, None)


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_a_busy_host_may_be_asked_again_after_the_pause_that_it_asks_for(status: int) -> None:
    with serving(lambda *_: Answer(status, {"Retry-After": "7"})) as server:
        challenge = Challenge("bearer", f"http://{server.address}/t", "s", "")
        said = rf"issues no token now \(HTTP {status}, and asks to wait 7 s\)"
        with pytest.raises(PassingError, match=said) as raised:
            fetch_token(challenge, None)
    assert raised.value.wait == 7


def test_a_login_goes_nowhere_unencrypted(monkeypatch: pytest.MonkeyPatch) -> None:
    challenge = Challenge("bearer", "http://registry.example.org/t", "s", "")
    for login in (JOE, None):
        with pytest.raises(ArgosyError, match="only https is safe"):
            fetch_token(challenge, login)
