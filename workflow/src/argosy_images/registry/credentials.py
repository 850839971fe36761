"""Read the registry logins of `podman login` and `docker login`, and fetch tokens.

Formats: containers-auth.json(5) and Docker's config.json. Secrets are held in `SecretStr`, which hides them
from output and logs. Challenges and tokens:
https://distribution.github.io/distribution/spec/auth/token/, and its page `oauth` for identity tokens.
"""

import base64
import binascii
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import requests
from pydantic import SecretStr
from requests.utils import parse_dict_header

from argosy_common.errors import ArgosyError
from argosy_images.registry.reference import DOCKER_HUB, DOCKER_HUB_NAMES, Reference
from argosy_images.registry.transport import check_is_not_busy, exchange, read_body

HELPER_TIMEOUT_S = 60
IDENTITY_TOKEN_USER = "<token>"

_DOCKER_HUB_KEY = "https://index.docker.io/v1/"
_HELPER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_NOT_THERE = "credentials not found"


@dataclass(frozen=True)
class Login:
    """A user's name with a password or identity token; `source` is the file or helper it comes from."""

    user: str
    secret: SecretStr
    source: str

    @property
    def is_identity_token(self) -> bool:
        """Whether the secret is an identity token, which only a token server accepts."""
        return self.user == IDENTITY_TOKEN_USER


def find_login(reference: Reference, variables: Mapping[str, str] = os.environ) -> Login | None:
    """Return the login for an image's repository from the first file that has one, or None."""
    for path in login_files(variables):
        if _is_file(path) and (login := _from_file(path, reference, variables)):
            return login
    return None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except PermissionError:
        # The folder belongs to another user, so it has no login of this one.
        return False


def login_files(variables: Mapping[str, str] = os.environ) -> list[Path]:
    """Return the paths of login files, in order of precedence."""
    if chosen := variables.get("REGISTRY_AUTH_FILE"):
        if not Path(chosen).is_file():
            raise ArgosyError(f"{chosen}: REGISTRY_AUTH_FILE names this file, which does not exist")
        return [Path(chosen)]
    home = Path(variables.get("HOME") or Path.home())
    runtime = Path(variables.get("XDG_RUNTIME_DIR") or f"/run/containers/{os.getuid()}")
    settings = Path(variables.get("XDG_CONFIG_HOME") or home / ".config")
    in_runtime = "containers/auth.json" if variables.get("XDG_RUNTIME_DIR") else "auth.json"
    return [
        runtime / in_runtime,
        settings / "containers/auth.json",
        Path(variables.get("DOCKER_CONFIG") or home / ".docker") / "config.json",
    ]


def _from_file(path: Path, reference: Reference, variables: Mapping[str, str]) -> Login | None:
    content = _read_settings(path)
    helper = _part(path, content, "credHelpers").get(reference.host)
    if helper is not None:
        return _from_helper(path, helper, reference.host, variables)
    entries = _part(path, content, "auths")
    known = {_plain(key): entry for key, entry in entries.items()}
    for name in _names(reference):
        if login := _from_entry(path, name, known.get(name)):
            return login
    store = content.get("credsStore")
    return _from_helper(path, store, reference.host, variables) if store else None


def _read_settings(path: Path) -> Mapping[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise ArgosyError(f"{path}: the logins cannot be read: {problem.strerror}") from None
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise _damaged(path, "it is not a JSON object")
    return content


def _part(path: Path, content: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = content.get(name) or {}
    if not isinstance(part, dict):
        raise _damaged(path, f"{name} is not an object")
    return part


def _names(reference: Reference) -> Iterator[str]:
    """Yield the possible keys of a login, the longest first: host/a/b, host/a, host."""
    parts = [reference.host, *reference.repository.split("/")]
    for length in range(len(parts), 0, -1):
        yield "/".join(parts[:length])


def _plain(key: str) -> str:
    """Return a key in podman's form; Docker's keys are URLs."""
    plain = re.sub(r"^https?://", "", key).rstrip("/")
    plain = re.sub(r"/v[12]$", "", plain)
    return DOCKER_HUB if plain in DOCKER_HUB_NAMES else plain


def _from_entry(path: Path, name: str, entry: Any) -> Login | None:
    if not entry:
        # Docker leaves an empty entry if a helper has the login.
        return None
    if not isinstance(entry, dict):
        raise _damaged(path, f"the entry of {name} is not an object")
    if token := entry.get("identitytoken"):
        return Login(IDENTITY_TOKEN_USER, SecretStr(str(token)), str(path))
    if not entry.get("auth"):
        return None
    try:
        user, colon, secret = base64.b64decode(entry["auth"], validate=True).decode().partition(":")
    except (TypeError, ValueError, binascii.Error):
        colon = ""
    if not colon:
        raise _damaged(path, f"the entry of {name} is not a user and a password in base64")
    return Login(user, SecretStr(secret.rstrip("\0")), str(path))


def _from_helper(path: Path, helper: Any, host: str, variables: Mapping[str, str]) -> Login | None:
    """Get a login from the program docker-credential-NAME."""
    if not isinstance(helper, str) or not _HELPER_NAME.fullmatch(helper):
        raise _damaged(path, "a credential helper has an invalid name")
    name = f"docker-credential-{helper}"
    program = shutil.which(name, path=variables.get("PATH"))
    if not program:
        raise ArgosyError(f"{path}: it names the program {name}, which is not on PATH")
    asked = _DOCKER_HUB_KEY if host == DOCKER_HUB else host
    try:
        done = subprocess.run(
            [program, "get"],
            input=asked,
            capture_output=True,
            text=True,
            timeout=HELPER_TIMEOUT_S,
            env=dict(variables),
        )
    except (OSError, UnicodeDecodeError, subprocess.TimeoutExpired):
        done = None
    if done and done.returncode != 0 and _NOT_THERE in done.stdout:
        return None
    try:
        answer = json.loads(done.stdout) if done and done.returncode == 0 else {}
        return Login(str(answer["Username"]), SecretStr(str(answer["Secret"])), name)
    except (ValueError, KeyError, TypeError):
        # The output is not quoted: it may contain the secret.
        raise ArgosyError(f"{name}: has no login for {host}", f"try: {name} get") from None


def _damaged(path: Path, problem: str) -> ArgosyError:
    return ArgosyError(
        f"{path}: not a file of registry logins: {problem}",
        "remove it and log in again with: podman login",
    )


CLIENT_NAME = "argosy"
LONGEST_TOKEN_ANSWER = 1 << 20

_SCHEME = re.compile(r"(?:^|,)\s*(bearer|basic)\s+", re.IGNORECASE)


@dataclass(frozen=True)
class Challenge:
    """A registry's authentication challenge: `Bearer` with a token from `realm`, or `Basic`."""

    scheme: str
    realm: str
    service: str
    scope: str


def read_challenge(header: str) -> Challenge | None:
    """Parse a WWW-Authenticate header; return its Bearer challenge, else Basic, or None."""
    _, *parts = _SCHEME.split(header)
    offers = {
        scheme.lower(): parse_dict_header(text)
        for scheme, text in zip(parts[::2], parts[1::2], strict=True)
    }
    for scheme in ("bearer", "basic"):
        if scheme in offers:
            found = {name.lower(): value or "" for name, value in offers[scheme].items()}
            return Challenge(
                scheme, *(found.get(name, "") for name in ("realm", "service", "scope"))
            )
    return None


def basic(login: Login) -> str:
    """Return the Authorization header of a login."""
    pair = f"{login.user}:{login.secret.get_secret_value()}"
    return f"Basic {base64.b64encode(pair.encode()).decode('ascii')}"


def fetch_token(challenge: Challenge, login: Login | None) -> str:
    """Return the Authorization header with a token for a challenge; without a login, an anonymous token.

    Raises:
        PassingError: if the token server fails temporarily.
        ArgosyError: if the token server rejects the login, or its response is invalid.
    """
    host = urlsplit(challenge.realm).netloc
    headers = {"Accept": "application/json"}
    names = {"service": challenge.service, "scope": challenge.scope}
    query = {name: value for name, value in names.items() if value}
    url, form = challenge.realm, None
    if login and login.is_identity_token:
        form = {
            **query,
            "grant_type": "refresh_token",
            "client_id": CLIENT_NAME,
            "refresh_token": login.secret.get_secret_value(),
        }
    else:
        url += ("&" if urlsplit(url).query else "?") + urlencode(query)
        if login:
            headers["Authorization"] = basic(login)
    with exchange(url, headers, form=form) as response:
        check_is_not_busy(response, f"{host}: issues no token now")
        if response.status_code != 200:
            raise ArgosyError(
                f"{host}: issues no token (HTTP {response.status_code})", _whose(login)
            )
        return f"Bearer {_token(host, response)}"


def _token(host: str, response: requests.Response) -> str:
    try:
        content = json.loads(read_body(response, LONGEST_TOKEN_ANSWER))
        token = content.get("token") or content.get("access_token")
        if isinstance(token, str) and token.isprintable() and token.isascii() and token:
            return token
    except (ValueError, AttributeError, RecursionError):
        pass
    raise ArgosyError(f"{host}: answers without a token; is it the registry's token server?")


def _whose(login: Login | None) -> str:
    if login is None:
        return "there is no login for the registry"
    return f"the login of {login.user} from {login.source} may be wrong or too old"
