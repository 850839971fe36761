"""One HTTP exchange with a registry, and in plain words why there was none.

Redirects are followed here and not by requests: what authorizes us is for one host, and for no other.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import cast
from urllib.parse import urljoin, urlsplit

import requests
from requests.auth import AuthBase
from urllib3.exceptions import HTTPError, NameResolutionError, NewConnectionError

from argosy.errors import ArgosyError
from argosy.images.registry.reference import is_loopback
from argosy.images.registry.retry import PassingError, UnreachableError

CONNECT_S = 10.0
READ_S = 60.0
MOST_REDIRECTS = 5

_REDIRECTS = (301, 302, 303, 307, 308)


class _NoOtherLogin(AuthBase):
    """Stands where requests would else put what it finds in ~/.netrc."""

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        return request


@contextmanager
def exchange(
    url: str,
    headers: Mapping[str, str],
    *,
    form: Mapping[str, str] | None = None,
    read_s: float = READ_S,
) -> Iterator[requests.Response]:
    """Open the answer to a GET, or to a POST of `form`; its body is yet to be read.

    Raises:
        UnreachableError: when nobody answers.
        PassingError: when the answer breaks off.
        ArgosyError: when it must not be asked, or proves to be somebody else.
    """
    with requests.Session() as session:
        session.auth = _NoOtherLogin()
        with spoken(url):
            response = _send(session, url, headers, form, read_s)
        try:
            with spoken(response.url):
                yield response
        finally:
            response.close()


@contextmanager
def spoken(url: str) -> Iterator[None]:
    """Turn what requests and urllib3 raise into errors for people.

    Their own texts are not shown: they hold whole addresses, and those may hold secrets.
    """
    host = urlsplit(url).netloc
    try:
        yield
    except requests.exceptions.SSLError as problem:
        raise ArgosyError(
            f"{host}: no secure connection: {_innermost(problem)}",
            "where the site has certificates of its own, REQUESTS_CA_BUNDLE names the file of them",
        ) from None
    except (requests.ConnectionError, requests.Timeout) as problem:
        raise UnreachableError(f"{host}: {_reason(problem)}") from None
    except (requests.RequestException, HTTPError) as problem:
        raise PassingError(f"{host}: the answer broke off ({type(problem).__name__})") from None


def read_body(response: requests.Response, longest: int) -> bytes:
    """Return the body, or as much of it as is longer than `longest` by one byte.

    Raises:
        HTTPError: when it breaks off, which a single call would not tell.
    """
    body = b""
    while len(body) <= longest:
        chunk = response.raw.read(longest + 1 - len(body), decode_content=True)
        if not chunk:
            break
        body += chunk
    return body


def _send(
    session: requests.Session,
    url: str,
    headers: Mapping[str, str],
    form: Mapping[str, str] | None,
    read_s: float,
) -> requests.Response:
    own, is_far = _origin(url), not is_loopback(urlsplit(url).hostname or "")
    for _ in range(MOST_REDIRECTS + 1):
        _check(url)
        if is_far and is_loopback(urlsplit(url).hostname or ""):
            raise ArgosyError(f"{own[1]}: redirects to this machine, and is not followed there")
        foreign = _origin(url) != own
        shown = {key: text for key, text in headers.items() if not (foreign and key in _SECRET)}
        response = session.request(
            "GET" if form is None else "POST",
            url,
            headers=shown,
            data=form,
            stream=True,
            timeout=(CONNECT_S, read_s),
            allow_redirects=False,
            proxies=_NO_PROXIES if is_loopback(urlsplit(url).hostname or "") else None,
        )
        target = response.headers.get("Location")
        if form is not None or response.status_code not in _REDIRECTS or not target:
            return response
        response.close()
        url = urljoin(url, target)
    raise ArgosyError(f"{urlsplit(url).netloc}: sends from one address to the next without end")


_SECRET = ("Authorization",)

# To requests this means that those of the environment are not for this one.
_NO_PROXIES = cast(dict[str, str], dict.fromkeys(("http", "https", "all")))


def _origin(url: str) -> tuple[str, str]:
    found = urlsplit(url)
    return found.scheme, found.netloc


def _check(url: str) -> None:
    """Refuse to send anything over a network unencrypted."""
    found = urlsplit(url)
    if found.scheme == "https" or (found.scheme == "http" and is_loopback(found.hostname or "")):
        return
    raise ArgosyError(
        f"{found.netloc or 'the registry'}: wants to be asked by {found.scheme or 'nothing'} where only "
        "https is safe"
    )


def _reason(problem: Exception) -> str:
    """Return why there was no connection."""
    causes = list(_causes(problem))
    if isinstance(problem, requests.exceptions.ProxyError):
        return "the proxy does not let us through"
    if isinstance(problem, requests.ConnectTimeout):
        return f"no connection within {CONNECT_S:.0f} s"
    if isinstance(problem, requests.Timeout) or any(
        isinstance(one, TimeoutError) for one in causes
    ):
        return "no answer in time"
    if any(isinstance(one, NameResolutionError) for one in causes):
        return "there is no host of this name, or no network"
    if any(isinstance(one, NewConnectionError) for one in causes):
        return f"no connection ({_innermost(problem)})"
    return f"the connection broke off ({_innermost(problem)})"


def _innermost(problem: BaseException) -> str:
    """Return what the system said at last; never what holds an address."""
    *_, last = _causes(problem)
    reason = getattr(last, "verify_message", None) or getattr(last, "reason", None)
    said = reason or getattr(last, "strerror", None)
    return said if isinstance(said, str) else type(last).__name__


def _causes(problem: BaseException) -> Iterator[BaseException]:
    """Return the problem and what it came from, the innermost last."""
    seen: list[BaseException] = []
    following: object = problem
    while isinstance(following, BaseException) and following not in seen:
        seen.append(following)
        inner = [one for one in following.args if isinstance(one, BaseException)]
        reason = getattr(following, "reason", None)
        following = next(
            (
                one
                for one in (*inner, reason, following.__cause__)
                if isinstance(one, BaseException)
            ),
            following.__context__,
        )
    return iter(seen)
