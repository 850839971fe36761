"""What a registry asks for before it answers, and how it is had.

Challenges: https://distribution.github.io/distribution/spec/auth/token/ and, for identity tokens, the page
`oauth` beside it.
"""

import base64
import json
import re
from dataclasses import dataclass
from urllib.parse import urlencode, urlsplit

import requests
from requests.utils import parse_dict_header

from argosy.errors import ArgosyError
from argosy.images.registry.credentials import Login
from argosy.images.registry.retry import PassingError
from argosy.images.registry.transport import exchange, read_body

CLIENT_NAME = "argosy"
LONGEST_TOKEN_ANSWER = 1 << 20

_SCHEME = re.compile(r"(?:^|,)\s*(bearer|basic)\s+", re.IGNORECASE)


@dataclass(frozen=True)
class Challenge:
    """How a registry wants to be answered: `Bearer` with a token of `realm`, or `Basic`."""

    scheme: str
    realm: str
    service: str
    scope: str


def read_challenge(header: str) -> Challenge | None:
    """Return the best that a WWW-Authenticate header offers, or None."""
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
    """Return the header of a login itself."""
    pair = f"{login.user}:{login.secret.get_secret_value()}"
    return f"Basic {base64.b64encode(pair.encode()).decode('ascii')}"


def fetch_token(challenge: Challenge, login: Login | None) -> str:
    """Return the header with a token for what the challenge names; without a login one for everybody.

    Raises:
        PassingError: when the host that gives tokens cannot answer now.
        ArgosyError: when it refuses the login, or answers otherwise than such hosts do.
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
        if response.status_code >= 500 or response.status_code == 429:
            raise PassingError(f"{host}: gives no token now (HTTP {response.status_code})")
        if response.status_code != 200:
            raise ArgosyError(
                f"{host}: gives no token (HTTP {response.status_code})", _whose(login)
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
    raise ArgosyError(f"{host}: answers without a token; is it what gives tokens of the registry?")


def _whose(login: Login | None) -> str:
    if login is None:
        return "there is no login for the registry"
    return f"the login of {login.user} from {login.source} may be wrong or too old"
