"""Send one HTTP request to a registry, with readable errors.

Redirects are followed here and not by requests, so that authorization stays on its host.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import cast
from urllib.parse import urljoin, urlsplit

import requests
from requests.auth import AuthBase
from requests.utils import get_environ_proxies, prepend_scheme_if_needed, select_proxy
from urllib3.exceptions import (
    HTTPError,
    InvalidHeader,
    NameResolutionError,
    NewConnectionError,
)
from urllib3.util import Retry, Url, parse_url

from argosy_common.errors import ArgosyError
from argosy_images.registry.reference import is_loopback, reaches_here
from argosy_images.registry.retry import PassingError, UnreachableError, UnusableProxyError

CONNECT_S = 10.0
READ_S = 60.0
MOST_REDIRECTS = 5

_BUSY = (408, 425, 429)
_REDIRECTS = (301, 302, 303, 307, 308)


class _NoOtherLogin(AuthBase):
    """Keeps requests from adding logins from ~/.netrc."""

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
    """Yield the response to a GET, or to a POST of `form`, with its body unread.

    Raises:
        UnusableProxyError: if the environment's proxy is invalid or a SOCKS proxy.
        UnreachableError: if there is no response.
        PassingError: if the response is cut off.
        ArgosyError: if the URL is not allowed, or its certificate is invalid.
    """
    with requests.Session() as session:
        session.auth = _NoOtherLogin()
        with _readable_errors(url):
            response = _send(session, url, headers, form, read_s)
        try:
            with _readable_errors(response.url):
                yield response
        finally:
            response.close()


@contextmanager
def _readable_errors(url: str) -> Iterator[None]:
    """Convert errors of requests and urllib3 to errors for users.

    Their own messages are hidden, since they contain whole URLs, perhaps with secrets.
    """
    host = urlsplit(url).netloc
    try:
        yield
    except requests.exceptions.SSLError as problem:
        raise ArgosyError(
            f"{host}: no secure connection: {_innermost(problem)}",
            "if the site has its own certificates, set REQUESTS_CA_BUNDLE to their file",
        ) from None
    except (requests.ConnectionError, requests.Timeout) as problem:
        raise UnreachableError(f"{host}: {_reason(problem, _proxy_of(url))}") from None
    except (requests.RequestException, HTTPError) as problem:
        raise PassingError(
            f"{host}: the connection broke during the answer ({type(problem).__name__})"
        ) from None


def check_is_not_busy(response: requests.Response, problem: str) -> None:
    """Raise a PassingError with this problem if the server asks to come again later."""
    status = response.status_code
    if status not in _BUSY and status < 500:
        return
    wait = 0.0
    with suppress(InvalidHeader, ValueError):
        # A number of seconds, or a date.
        wait = max(0.0, Retry().parse_retry_after(response.headers.get("Retry-After", "0")))
    asks = f", and asks to wait {wait:.0f} s" if wait else ""
    raise PassingError(f"{problem} (HTTP {status}{asks})", wait)


def read_body(response: requests.Response, longest: int) -> bytes:
    """Return the body, or its first `longest` + 1 bytes.

    Raises:
        HTTPError: if the body is cut off, which a single read would not report.
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
        if is_far and _origin(url) != own and reaches_here(urlsplit(url).hostname or ""):
            raise ArgosyError(f"{own[1]}: redirects to this machine, which is not followed")
        _check_address(url)
        _proxy_of(url)
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
    raise ArgosyError(f"{urlsplit(url).netloc}: redirect loop")


_SECRET = ("Authorization",)

# Makes requests ignore the environment's proxies.
_NO_PROXIES = cast(dict[str, str], dict.fromkeys(("http", "https", "all")))


def _origin(url: str) -> tuple[str, str]:
    found = urlsplit(url)
    return found.scheme, found.netloc


def _check_address(url: str) -> None:
    """Reject unencrypted connections over a network."""
    found = urlsplit(url)
    if found.scheme == "https" or (found.scheme == "http" and is_loopback(found.hostname or "")):
        return
    raise ArgosyError(
        f"{found.netloc or 'the registry'}: uses {found.scheme or 'no scheme'}, and only "
        "https is safe"
    )


def _proxy_of(url: str) -> str:
    """Return the proxy for a URL, without its login, or an empty string."""
    host = urlsplit(url)
    if is_loopback(host.hostname or ""):
        return ""
    named = select_proxy(url, get_environ_proxies(url))
    if not named:
        return ""
    try:
        found = parse_url(prepend_scheme_if_needed(named, "http"))
    except ValueError:
        found = Url()
    shown = f"{found.scheme}://{found.netloc}"
    if found.scheme and found.scheme.startswith("socks"):
        told = f"the proxy {shown} is a SOCKS proxy, which is not supported"
    elif not found.host or found.scheme not in ("http", "https"):
        told = "HTTPS_PROXY or ALL_PROXY is not the address of a proxy"
    else:
        return shown
    raise UnusableProxyError(
        f"{host.netloc}: {told}; set HTTPS_PROXY to http://HOST:PORT, or unset it"
    )


def _reason(problem: Exception, proxy: str) -> str:
    """Describe why a connection failed, to the host or to its proxy."""
    if isinstance(problem, requests.exceptions.ProxyError):
        return _reason_of_proxy(problem, proxy)
    return _reason_of_host(problem) + (f", through the proxy {proxy}" if proxy else "")


def _reason_of_proxy(problem: Exception, proxy: str) -> str:
    causes = list(_causes(problem))
    if any(isinstance(one, NameResolutionError) for one in causes):
        return f"the proxy's name {proxy} is unknown, or there is no network"
    if any(isinstance(one, NewConnectionError) for one in causes):
        return f"the proxy {proxy} does not answer ({_innermost(problem)})"
    # The message of http.client: "Tunnel connection failed: 403 Forbidden".
    status = re.search(r"failed: (\d{3})\b", str(causes[-1]))
    return f"the proxy {proxy} rejects the connection" + (f" (HTTP {status[1]})" if status else "")


def _reason_of_host(problem: Exception) -> str:
    causes = list(_causes(problem))
    if isinstance(problem, requests.ConnectTimeout):
        return f"no connection within {CONNECT_S:.0f} s"
    if isinstance(problem, requests.Timeout) or any(
        isinstance(one, TimeoutError) for one in causes
    ):
        return "no answer in time"
    if any(isinstance(one, NameResolutionError) for one in causes):
        return "the host's name is unknown, or there is no network"
    if any(isinstance(one, NewConnectionError) for one in causes):
        return f"no connection ({_innermost(problem)})"
    return f"the connection broke off ({_innermost(problem)})"


def _innermost(problem: BaseException) -> str:
    """Return the system's reason of the innermost error; it contains no URL."""
    *_, last = _causes(problem)
    reason = getattr(last, "verify_message", None) or getattr(last, "reason", None)
    said = reason or getattr(last, "strerror", None)
    return said if isinstance(said, str) else type(last).__name__


def _causes(problem: BaseException) -> Iterator[BaseException]:
    """Return the error and its causes, the innermost last."""
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
