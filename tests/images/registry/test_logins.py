"""Logins from files of podman and Docker."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from argosy_common.errors import ArgosyError
from argosy_images.registry.credentials import Login, find_login, login_files
from argosy_images.registry.reference import Reference

SECRET = "s3cret: wörd"


def auth(user: str, secret: str = SECRET) -> dict[str, str]:
    return {"auth": base64.b64encode(f"{user}:{secret}".encode()).decode()}


class Home:
    """A home folder and its environment."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.podman = folder / ".config/containers/auth.json"
        self.docker = folder / ".docker/config.json"
        self.runtime = folder / "run/containers/auth.json"
        self.programs = folder / "bin"
        self.programs.mkdir()
        self.variables = {
            "HOME": str(folder),
            "PATH": f"{self.programs}:/usr/bin:/bin",
            "XDG_RUNTIME_DIR": str(folder / "run"),
        }

    def write(self, path: Path, **content: Any) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))

    def find(self, reference: str) -> Login | None:
        return find_login(Reference.parse(reference), self.variables)

    def user(self, reference: str) -> str | None:
        login = self.find(reference)
        return login.user if login else None

    def helper(self, name: str, script: str) -> None:
        path = self.programs / f"docker-credential-{name}"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_the_first_file_that_has_one_counts(home: Home) -> None:
    assert home.find("x.org/a") is None
    for user, path in (("d", home.docker), ("p", home.podman), ("r", home.runtime)):
        home.write(path, auths={"x.org": auth(user)})
        assert home.user("x.org/a") == user
    home.write(home.runtime, auths={"other.org": auth("r")})
    assert home.user("x.org/a") == "p"


def test_folders_of_others_are_passed_by(home: Home) -> None:
    home.write(home.podman, auths={"x.org": auth("p")})
    home.runtime.parent.mkdir(parents=True, exist_ok=True)
    home.runtime.parent.chmod(0)
    assert home.user("x.org/a") == "p"
    home.runtime.parent.chmod(0o700)


def test_the_environment_names_other_places(home: Home) -> None:
    home.write(home.podman, auths={"x.org": auth("p")})
    home.write(home.folder / "mine.json", auths={"y.org": auth("m")})
    home.variables["REGISTRY_AUTH_FILE"] = str(home.folder / "mine.json")
    assert (home.user("y.org/a"), home.user("x.org/a")) == ("m", None)
    home.variables["REGISTRY_AUTH_FILE"] = str(home.folder / "none.json")
    with pytest.raises(ArgosyError, match=r"none.json: REGISTRY_AUTH_FILE names this file"):
        home.find("x.org/a")
    own = {"XDG_CONFIG_HOME": "/c", "DOCKER_CONFIG": "/d", "HOME": "/h", "XDG_RUNTIME_DIR": "/r"}
    assert [str(path) for path in login_files(own)] == [
        "/r/containers/auth.json",
        "/c/containers/auth.json",
        "/d/config.json",
    ]


def test_the_longest_name_counts(home: Home) -> None:
    keys = ("x.org", "x.org/team", "x.org/team/tool", "x.org/teamwork")
    home.write(home.podman, auths={key: auth(key) for key in keys})
    assert home.user("x.org/team/tool:1") == "x.org/team/tool"
    assert home.user("x.org/team/other") == "x.org/team"
    assert home.user("x.org/tea/m") == "x.org"
    assert home.user("x.org:5000/team") is None


def test_names_as_docker_writes_them(home: Home) -> None:
    home.write(home.docker, auths={"https://index.docker.io/v1/": auth("hub")})
    assert home.user("debian") == "hub"
    home.write(home.docker, auths={"https://x.org/v2/": auth("x"), "docker.io": auth("plain")})
    assert (home.user("x.org/a"), home.user("a/b")) == ("x", "plain")


def test_the_secret_is_what_was_written_and_shown_to_nobody(home: Home) -> None:
    home.write(home.podman, auths={"x.org": auth("joe")})
    login = home.find("x.org/a")
    assert login
    assert login.secret.get_secret_value() == SECRET
    assert "s3cret" not in f"{login} {login!r} {[login]}"
    assert login.source == str(home.podman)


def test_an_identity_token_stands_for_a_password(home: Home) -> None:
    home.write(home.docker, auths={"x.org": {**auth("joe", ""), "identitytoken": "tok"}})
    login = home.find("x.org/a")
    assert login
    assert login.is_identity_token
    assert login.secret.get_secret_value() == "tok"


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"auths": ["s3cret"]}',
        '{"auths": {"x.org": "s3cret"}}',
        '{"auths": {"x.org": {"auth": "s3cret"}}}',
        '{"auths": {"x.org": {"auth": "czNjcmV0"}}}',
        '{"auths": {"x.org": {"auth": 3}}}',
        '{"credHelpers": {"x.org": "../s3cret"}}',
        '{"credHelpers": {"x.org": ["s3cret"]}}',
        '{"credHelpers": {"x.org": "s3 cret; touch x"}}',
        '{"credsStore": "s3cret/x"}',
        "[" * 100_000,
    ],
)
def test_a_damaged_file_is_named_and_not_shown(home: Home, text: str) -> None:
    home.podman.parent.mkdir(parents=True)
    home.podman.write_text(text)
    with pytest.raises(ArgosyError) as problem:
        home.find("x.org/a")
    assert str(home.podman) in str(problem.value)
    assert "s3cret" not in str(problem.value)
    assert problem.value.__cause__ is None


def test_an_entry_of_another_registry_may_be_anything(home: Home) -> None:
    home.write(home.podman, auths={"y.org": 3, "x.org": auth("joe")})
    assert home.user("x.org/a") == "joe"


def test_a_helper_is_asked_by_its_input_alone(home: Home) -> None:
    home.write(home.docker, credHelpers={"x.org": "own", "docker.io": "own"})
    home.helper(
        "own",
        f'read host; echo "$# $1 $host" >> {home.folder}/asked\n'
        'echo \'{"ServerURL": "x", "Username": "joe", "Secret": "s3cret"}\'',
    )
    login = home.find("x.org/a")
    assert login
    assert (login.user, login.secret.get_secret_value()) == ("joe", "s3cret")
    assert login.source == "docker-credential-own"
    home.find("debian")
    asked = (home.folder / "asked").read_text().splitlines()
    assert asked == ["1 get x.org", "1 get https://index.docker.io/v1/"]


def test_docker_leaves_an_empty_entry_where_a_helper_has_the_login(home: Home) -> None:
    home.write(home.docker, auths={"x.org": {}}, credsStore="all")
    home.helper("all", 'echo \'{"Username": "<token>", "Secret": "t"}\'')
    login = home.find("x.org/a")
    assert login
    assert login.is_identity_token


def test_a_helper_without_a_login_is_no_error_and_a_broken_one_is(home: Home) -> None:
    home.write(home.docker, credsStore="all")
    with pytest.raises(ArgosyError, match="docker-credential-all, which is not on PATH"):
        home.find("x.org/a")
    home.helper("all", "echo credentials not found in native keychain; exit 1")
    assert home.find("x.org/a") is None
    for script in ("echo s3cret; exit 1", "echo s3cret", 'echo \'{"Secret": "s3cret"}\''):
        home.helper("all", script)
        with pytest.raises(ArgosyError) as problem:
            home.find("x.org/a")
        assert "docker-credential-all: has no login for x.org" in str(problem.value)
        assert "s3cret" not in str(problem.value)
