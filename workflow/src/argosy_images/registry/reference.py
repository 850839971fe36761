"""Parse references to images, such as `docker.io/library/debian:bookworm`."""

import ipaddress
import re
import socket
from dataclasses import dataclass, replace
from pathlib import Path

from argosy_common.errors import ArgosyError
from argosy_images.oci import DIGEST

TRANSPORT = "docker://"
"""Prefix of a reference, as in skopeo and podman."""

DOCKER_HUB = "docker.io"
_DOCKER_HUB_API = "registry-1.docker.io"
DOCKER_HUB_NAMES = (DOCKER_HUB, _DOCKER_HUB_API, "index.docker.io")

_HOST = re.compile(r"(?:[A-Za-z0-9]+(?:[.-]+[A-Za-z0-9]+)*|\[[0-9A-Fa-f:]+\])(?::[0-9]{1,5})?")
_REPOSITORY = re.compile(r"[a-z0-9]+(?:(?:[._]|__|-+|/)[a-z0-9]+)*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_LONGEST = 255


@dataclass(frozen=True)
class Reference:
    """`[host[:port]/]repository[:tag][@digest]`; a digest takes precedence over the tag."""

    host: str
    repository: str
    tag: str | None = None
    digest: str | None = None

    @classmethod
    def parse(cls, text: str) -> "Reference":
        """Parse a reference. The first part is a host if it looks like one; the default is docker.io."""
        rest, at, digest = text.removeprefix(TRANSPORT).partition("@")
        _check_part(
            text, digest if at else None, DIGEST, "a digest is sha256: and 64 hexadecimal digits"
        )
        first, slash, others = rest.partition("/")
        is_host = bool(slash) and ("." in first or ":" in first or first == "localhost")
        host, name = (first, others) if is_host else (DOCKER_HUB, rest)
        _check_part(text, host, _HOST, f"{host!r} is not a host")
        repository, colon, tag = name.partition(":")
        _check_part(text, tag if colon else None, _TAG, f"{tag!r} is not a tag")
        rule = "a repository's name consists of small letters, digits and . _ - /"
        _check_part(text, repository if len(repository) <= _LONGEST else "", _REPOSITORY, rule)
        if host in DOCKER_HUB_NAMES:
            host = DOCKER_HUB
            repository = repository if "/" in repository else f"library/{repository}"
        return cls(host, repository, tag or (None if digest else "latest"), digest or None)

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        return f"{self.host}/{self.repository}{tag}" + (f"@{self.digest}" if self.digest else "")

    @property
    def wanted(self) -> str:
        """The digest, else the tag, to request from the registry."""
        return self.digest or self.tag or "latest"

    @property
    def api(self) -> str:
        """URL of the registry's API; without TLS on loopback, like Docker."""
        scheme = "http" if self.is_local else "https"
        return f"{scheme}://{self._api_host}/v2/"

    @property
    def is_local(self) -> bool:
        """Whether the registry is on this machine, so that it is used without TLS."""
        return is_loopback(re.sub(r":[0-9]+$", "", self._api_host))

    @property
    def _api_host(self) -> str:
        return _DOCKER_HUB_API if self.host == DOCKER_HUB else self.host

    def pinned(self, digest: str) -> "Reference":
        """Return this reference with a digest."""
        return replace(self, digest=digest)


def is_loopback(host: str) -> bool:
    """Return whether a host is certainly this machine, reached without a network."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def reaches_here(host: str) -> bool:
    """Return whether a host is this machine in any spelling; names are not looked up."""
    host = host.strip("[]").rstrip(".").lower()
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        try:
            # The resolver also accepts 127.1, 0x7f000001 and 2130706433.
            found = ipaddress.ip_address(socket.inet_aton(host))
        except (OSError, ValueError):
            return False
    found = getattr(found, "ipv4_mapped", None) or found
    return found.is_loopback or found.is_unspecified


def _check_part(text: str, part: str | None, pattern: re.Pattern[str], rule: str) -> None:
    if part is not None and not pattern.fullmatch(part):
        raise ArgosyError(f"{text!r} names no image in a registry: {rule}")


def split_source(source: str) -> tuple[Path, str]:
    """Split `PATH[:IMAGE]` into the longest existing path and the name of an image in it."""
    end = len(source)
    while end > 0 and not Path(source[:end]).exists():
        end = source.rfind(":", 0, end)
    return (Path(source[:end]), source[end + 1 :]) if end > 0 else (Path(source), "")
