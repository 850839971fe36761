"""What a registry's answer means by its status, in words that say what to do."""

import json
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import requests
from urllib3.exceptions import HTTPError, InvalidHeader
from urllib3.util import Retry

from argosy.errors import ArgosyError
from argosy.images.registry.credentials import Login
from argosy.images.registry.reference import Reference
from argosy.images.registry.retry import PassingError
from argosy.images.registry.transport import read_body

LONGEST_COMPLAINT = 1 << 16

_BUSY = (408, 425, 429)


FindLogin = Callable[[], Login | None]


@dataclass(frozen=True)
class Answers:
    """Those to the questions for one image."""

    reference: Reference
    find_login: FindLogin

    def check(self, response: requests.Response, *, is_part: bool) -> None:
        """Let pass what holds something.

        Args:
            is_part: whether a blob was asked for, maybe from some byte on.

        Raises:
            PassingError: when it should be asked again.
            ArgosyError: saying why there is nothing.
        """
        status = response.status_code
        if status in (200, 206) or (status == 416 and is_part):
            return
        if status in _BUSY or status >= 500:
            wait = _retry_after(response)
            asks = f", and asks to be left alone for {wait:.0f} s" if wait else ""
            host = self.reference.host
            raise PassingError(f"{host}: cannot answer now (HTTP {status}{asks})", wait)
        if status in (401, 403):
            raise self.refused(status)
        if status == 404:
            raise self._missing(response, is_part)
        raise self.error(f"the registry refuses{_codes(response)} (HTTP {status})")

    def refused(self, status: int) -> ArgosyError:
        """Somebody else might have it."""
        host = self.reference.host
        if login := self.find_login():
            return self.error(
                f"the registry does not let {login.user} have it (HTTP {status}); the login is from "
                f"{login.source}; log in again with: podman login {host}"
            )
        return self.error(
            "the registry lets only those have it who log in, or there is no such name "
            f"(HTTP {status}); no login for {host} was found; log in with: podman login {host}"
        )

    def error(self, problem: str) -> ArgosyError:
        """Return a problem with this image."""
        return ArgosyError(f"{self.reference}: {problem}")

    def _missing(self, response: requests.Response, is_part: bool) -> ArgosyError:
        if "html" in media_type(response):
            return self.error(f"{self.reference.host} is no registry: it answers with a page")
        what = "a part of it" if is_part else "no such name or tag"
        return self.error(f"the registry does not have it: {what}{_codes(response)} (HTTP 404)")


def media_type(response: requests.Response) -> str:
    """Return what an answer says that it is."""
    return response.headers.get("Content-Type", "").partition(";")[0].strip().lower()


def _retry_after(response: requests.Response) -> float:
    """Return seconds, from a number or a date."""
    with suppress(InvalidHeader, ValueError):
        return max(0.0, Retry().parse_retry_after(response.headers.get("Retry-After", "0")))
    return 0.0


def _codes(response: requests.Response) -> str:
    """Return the protocol's words for what is wrong, where the registry says one."""
    with suppress(ValueError, TypeError, KeyError, AttributeError, HTTPError, RecursionError):
        content = json.loads(read_body(response, LONGEST_COMPLAINT))
        codes = [str(one["code"]) for one in content["errors"]]
        return "".join(f", {code}" for code in codes[:3] if re.fullmatch(r"[A-Z_]{1,40}", code))
    return ""
