"""Fetch manifests and blobs of one repository from a registry.

The protocol: https://github.com/opencontainers/distribution-spec/blob/main/spec.md.
"""

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from urllib.parse import urlsplit

import requests
from pydantic import SecretStr
from urllib3.exceptions import HTTPError

from argosy_common.errors import ArgosyError
from argosy_images.registry.credentials import (
    Challenge,
    Login,
    basic,
    fetch_token,
    find_login,
    read_challenge,
)
from argosy_images.registry.reference import Reference, reaches_here
from argosy_images.registry.registries_conf import is_said_insecure, settings_file
from argosy_images.registry.retry import PassingError, Patience, UnreachableError
from argosy_images.registry.transport import (
    CONNECT_S,
    READ_S,
    check_is_not_busy,
    exchange,
    read_body,
)

LONGEST_COMPLAINT = 1 << 16


def _media_type(response: requests.Response) -> str:
    """Return the media type of a response."""
    return response.headers.get("Content-Type", "").partition(";")[0].strip().lower()


def _codes(response: requests.Response) -> str:
    """Return the protocol's error codes in a response, for a message."""
    with suppress(ValueError, TypeError, KeyError, AttributeError, HTTPError, RecursionError):
        content = json.loads(read_body(response, LONGEST_COMPLAINT))
        codes = [str(one["code"]) for one in content["errors"]]
        return "".join(f", {code}" for code in codes[:3] if re.fullmatch(r"[A-Z_]{1,40}", code))
    return ""


LONGEST_MANIFEST = 4 << 20
"""Bytes of a manifest, the protocol's minimum for registries."""


@dataclass(frozen=True)
class Document:
    """A manifest as received: its bytes, media type, and digest header."""

    content: bytes
    kind: str
    digest: str | None


class Client:
    """Client of the registry of one image; thread-safe.

    Args:
        reference: the image at the registry or mirror that is asked.
        read_s: seconds of silence before a request fails.
        named: the image's name for users; None: `reference`.
    """

    def __init__(
        self,
        reference: Reference,
        patience: Patience | None = None,
        read_s: float = READ_S,
        named: Reference | None = None,
    ) -> None:
        self.reference = reference
        self.named = named or reference
        self.patience = patience or Patience()
        self._read_s = read_s
        # Logins are searched only on request: most images are public.
        self._login: Callable[[], Login | None] = cache(lambda: find_login(reference))
        self._authorization: SecretStr | None = None
        self._authorizing = threading.Lock()
        self._open: set[requests.Response] = set()

    def stop(self) -> None:
        """Abort all threads, also during a response."""
        self.patience.stop.set()
        for response in self._open.copy():
            # The response may be ending in its own thread. urllib3 then raises one of several errors;
            # TypeError if the thread closes the response during `shutdown`.
            with suppress(OSError, RuntimeError, ValueError, TypeError):
                response.raw.shutdown()

    def reach(self, tries: int | None = None) -> None:
        """Check that the registry responds, even with an error.

        Wait at most CONNECT_S for each try, regardless of the number of addresses and name servers.

        Args:
            tries: number of tries; None: as for other requests.
        """
        pauses = self.patience.pauses if tries is None else self.patience.pauses[: tries - 1]
        replace(self.patience, pauses=pauses).retry(self._reach_once)

    def _reach_once(self) -> None:
        problems: list[Exception] = []

        def ask() -> None:
            try:
                with exchange(self.reference.api, {}, read_s=CONNECT_S):
                    pass
            except Exception as problem:
                problems.append(problem)

        # A thread, since a name lookup cannot be interrupted.
        asking = threading.Thread(target=ask, daemon=True)
        asking.start()
        asking.join(CONNECT_S)
        if asking.is_alive():
            raise UnreachableError(f"{self.reference.host}: no answer within {CONNECT_S:.0f} s")
        if problems:
            raise problems[0]

    def manifest(self, wanted: str, kinds: tuple[str, ...]) -> Document:
        """Fetch the manifest of a tag or digest; `kinds` are the accepted media types.

        Raises:
            PassingError: if the registry fails temporarily, after all tries.
            ArgosyError: with the reason for other failures.
        """

        def fetch() -> Document:
            path = f"{self.reference.repository}/manifests/{wanted}"
            with self._asked(path, {"Accept": ", ".join(kinds)}) as response:
                content = read_body(response, LONGEST_MANIFEST)
                if len(content) > LONGEST_MANIFEST:
                    raise self._error(f"its manifest is longer than {LONGEST_MANIFEST >> 20} MiB")
                kind = _media_type(response)
                if "html" in kind:
                    raise self._no_registry()
                return Document(content, kind, response.headers.get("Docker-Content-Digest"))

        return self.patience.retry(fetch)

    @contextmanager
    def blob(self, digest: str, begin: int) -> Iterator[requests.Response]:
        """Request a blob from byte `begin` on; the status may be 206, 200 (the whole blob) or 416.

        Raises:
            PassingError: if the request should be repeated.
            ArgosyError: with the reason for other failures.
        """
        # With a content encoding, byte ranges would not be ranges of the blob.
        headers = {"Accept-Encoding": "identity"}
        if begin:
            headers["Range"] = f"bytes={begin}-"
        with self._asked(f"{self.reference.repository}/blobs/{digest}", headers) as response:
            self._open.add(response)
            try:
                yield response
            finally:
                self._open.discard(response)

    @contextmanager
    def _asked(self, path: str, headers: Mapping[str, str]) -> Iterator[requests.Response]:
        """Yield the response to a request; on a challenge, authorize and repeat the request."""
        url, known = f"{self.reference.api}{path}", self._authorization
        with exchange(url, _with(headers, known), read_s=self._read_s) as response:
            if response.status_code != 401 or self._is_elsewhere(response):
                self._check(response, is_part="/blobs/" in path)
                yield response
                return
            challenge = read_challenge(response.headers.get("WWW-Authenticate", ""))
        if challenge is None:
            raise self._refused(401)
        authorization = self._authorize(challenge, known)
        with exchange(url, _with(headers, authorization), read_s=self._read_s) as response:
            self._check(response, is_part="/blobs/" in path)
            yield response

    def _authorize(self, challenge: Challenge, known: SecretStr | None) -> SecretStr:
        """Return the Authorization header; concurrent threads share one token request."""
        with self._authorizing:
            if self._authorization is None or self._authorization is known:
                self._authorization = SecretStr(self._answer(challenge))
            return self._authorization

    def _answer(self, challenge: Challenge) -> str:
        if challenge.scheme == "bearer":
            scope = challenge.scope or f"repository:{self.reference.repository}:pull"
            asked = Challenge("bearer", challenge.realm, challenge.service, scope)
            self._check_realm(challenge.realm)
            return fetch_token(asked, self._login_to_send())
        login = self._login_to_send()
        if login is None or login.is_identity_token:
            raise self._refused(401)
        return basic(login)

    def _login_to_send(self) -> Login | None:
        """Return the login; refuse to send it to a registry on this machine without TLS."""
        login = self._login()
        if login is None or not self.reference.is_local or is_said_insecure(self.reference):
            return login
        raise ArgosyError(
            f"{self.reference}: {self.reference.host} is on this machine and used without TLS, so "
            f"the login of {login.user} from {login.source} is not sent: any user may listen there. If it "
            f"is yours, write into {settings_file()}: [[registry]] location = "
            f'"{self.reference.host}" and insecure = true'
        )

    def _check_realm(self, realm: str) -> None:
        """Reject a token server on this machine for a remote registry: any local user may listen there."""
        if not self.reference.is_local and reaches_here(urlsplit(realm).hostname or ""):
            raise ArgosyError(
                f"{self.reference}: {self.reference.host} gets its tokens from {urlsplit(realm).netloc}, "
                "which is this machine, so no login is sent"
            )

    def _check(self, response: requests.Response, *, is_part: bool) -> None:
        """Raise an error unless the response has content.

        Args:
            is_part: whether the request was for a blob, perhaps from some byte on.

        Raises:
            PassingError: if the request should be repeated.
            ArgosyError: with the reason for other failures.
        """
        status = response.status_code
        if status in (200, 206) or (status == 416 and is_part):
            return
        host = self.reference.host
        if self._is_elsewhere(response):
            host = f"{urlsplit(response.url).netloc}, to which {host} redirects"
        check_is_not_busy(response, f"{host}: cannot answer now")
        if self._is_elsewhere(response):
            # Such an address is valid for minutes only; the next try gets a new one.
            raise PassingError(f"{host}: refuses the download (HTTP {status})")
        if status in (401, 403):
            raise self._refused(status)
        if status == 404:
            raise self._missing(response, is_part)
        raise self._error(f"the registry refuses{_codes(response)} (HTTP {status})")

    def _is_elsewhere(self, response: requests.Response) -> bool:
        """Return whether the registry redirected to another host, which knows none of its logins."""
        return urlsplit(response.url).netloc != urlsplit(self.reference.api).netloc

    def _refused(self, status: int) -> ArgosyError:
        """Return the error for a refused login, or a missing one."""
        host = self.reference.host
        if login := self._login():
            return self._error(
                f"the registry denies access to {login.user} (HTTP {status}); the login is from "
                f"{login.source}; log in again with: podman login {host}"
            )
        return self._error(
            "the registry requires a login, or has no such name "
            f"(HTTP {status}); no login for {host} was found; log in with: podman login {host}"
        )

    def _error(self, problem: str) -> ArgosyError:
        """Return an error that begins with the image's reference."""
        return ArgosyError(f"{self.reference}: {problem}")

    def _missing(self, response: requests.Response, is_part: bool) -> ArgosyError:
        if "html" in _media_type(response):
            return self._no_registry()
        what = "a part of it" if is_part else "no such name or tag"
        return self._error(f"the registry does not have it: {what}{_codes(response)} (HTTP 404)")

    def _no_registry(self) -> ArgosyError:
        return self._error(f"{self.reference.host} is not a registry: it answers with a web page")


def _with(headers: Mapping[str, str], authorization: SecretStr | None) -> dict[str, str]:
    if authorization is None:
        return dict(headers)
    return {**headers, "Authorization": authorization.get_secret_value()}
