"""Read the host's settings for builds: pip's configuration, proxies, the CA bundle, local wheel folders.

Builds get them as variables and mounts, which stay out of the image. RUN runs untrusted programs, so each
command gets only the settings that it needs (`for_command`).

pip's files and variables are read here, since `pip config list` takes as long as a small build:
https://pip.pypa.io/en/stable/topics/configuration/.
"""

import configparser
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

from argosy_images.engines.models import Bind

BUILD_DIR = "/dev/argosy"
"""Mount point of the host's settings in a build; images do not keep /dev."""

PIP_CACHE_VARIABLE = "PIP_CACHE_DIR"
PIP_CACHE = f"{BUILD_DIR}/cache/pip"
"""pip's cache in a build; the next build of the same image reuses it."""

PROXY_VARIABLES = ("http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy")
CA_VARIABLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
LOCATION_KEYS = ("find-links", "index-url", "extra-index-url")
INSTALLERS = re.compile(
    r"(?<![a-z])(pip|pipx|pipenv|uv|poetry|pdm|hatch|tox|nox|conda|mamba)(?![a-z])"
    r"|-m build|setup\.py|requirements",
    re.IGNORECASE,
)
"""Words by which a command is taken to install Python packages."""
_LOGIN = re.compile(r"(?<=://)[^/@\s]*@")

SECRET_FILE_KEYS = ("client-cert",)
FILE_KEYS = ("constraint", "build-constraint", "requirement", *SECRET_FILE_KEYS)
HOST_KEYS = {
    "log",
    "prefix",
    "python",
    "report",
    "require-virtualenv",
    "root",
    "src",
    "target",
    "user",
}
"""Settings ignored in builds: they would install packages at the host's paths."""


@dataclass(frozen=True)
class HostConfig:
    """Variables and mounts of a build.

    Args:
        logins: variables of pip's indexes with passwords, or with names of files in `secrets`.
        secrets: the mount of files such as client certificates; empty without any.
    """

    environment: Mapping[str, str]
    binds: tuple[Bind, ...]
    logins: Mapping[str, str]
    secrets: tuple[Bind, ...]

    def for_command(self, command: str) -> "HostConfig":
        """Return the settings for a command: pip's logins and cache only if it installs packages."""
        if not INSTALLERS.search(command):
            # A script that calls pip must not fill a cache, shared or in the image.
            kept = {
                name: self.environment[name]
                for name in self.environment
                if name != PIP_CACHE_VARIABLE
            }
            return replace(
                self, environment={**kept, "PIP_NO_CACHE_DIR": "1"}, logins={}, secrets=()
            )
        environment = {**self.environment, **self.logins}
        return replace(self, environment=environment, binds=(*self.binds, *self.secrets))

    def for_base(self) -> "HostConfig":
        """Return the settings for configuring a base system, which needs no network."""
        environment = {"APT_CONFIG": self.environment["APT_CONFIG"]}
        return HostConfig(environment, self.binds[:1], {}, ())


def read_host_config(folder: Path, secrets: Path) -> HostConfig:
    """Collect the host's settings for builds; write their files to the empty `folder` and `secrets`."""
    pip = pip_settings()
    mounts: dict[Path, str] = {}
    places = {True: secrets, False: folder}
    environment = {
        name: value for name, value in os.environ.items() if name.lower() in PROXY_VARIABLES
    }
    logins: dict[str, str] = {}
    for key in pip.keys() - HOST_KEYS:
        is_secret = key in SECRET_FILE_KEYS
        value = _setting_inside(key, pip[key], places[is_secret], mounts)
        plain = _LOGIN.sub("", value)
        if is_secret or plain != value:
            logins[_variable(key)] = value
        if not is_secret:
            environment[_variable(key)] = plain
    bundle = _ca_bundle(pip.get("cert"))
    if bundle:
        shutil.copyfile(bundle, folder / "ca-certificates.crt")
        inside = f"{BUILD_DIR}/{folder.name}/ca-certificates.crt"
        environment |= dict.fromkeys((*CA_VARIABLES, "PIP_CERT"), inside)
    # apt would switch to its own user, but the namespace maps only root.
    (folder / "apt.conf").write_text('APT::Sandbox::User "root";\n', encoding="ascii")
    environment["APT_CONFIG"] = f"{BUILD_DIR}/{folder.name}/apt.conf"
    environment[PIP_CACHE_VARIABLE] = PIP_CACHE
    binds = [Bind(folder, f"{BUILD_DIR}/{folder.name}")]
    binds += [Bind(path, target) for path, target in mounts.items()]
    private = (Bind(secrets, f"{BUILD_DIR}/{secrets.name}"),) if any(secrets.iterdir()) else ()
    return HostConfig(environment, tuple(binds), logins, private)


def _variable(key: str) -> str:
    return "PIP_" + key.upper().replace("-", "_")


def _setting_inside(key: str, value: str, folder: Path, mounts: dict[Path, str]) -> str:
    if key in LOCATION_KEYS:
        return " ".join(_location_inside(word, key, mounts) for word in value.split())
    if key in FILE_KEYS:
        words = enumerate(value.split())
        return " ".join(_file_inside(word, folder / f"{key}-{number}") for number, word in words)
    return value


def _location_inside(location: str, key: str, mounts: dict[Path, str]) -> str:
    """Replace a local folder or file:// URL by its mount point in the build; keep other URLs."""
    parts = urlsplit(location)
    if parts.scheme not in ("", "file"):
        return location
    path = Path(unquote(parts.path)).expanduser().absolute()
    if not path.is_dir():
        return location
    # Pages of an index link to files beside the index, so its parent is mounted.
    mounted = path if key == "find-links" else path.parent
    target = mounts.setdefault(mounted, f"{BUILD_DIR}/wheels-{len(mounts)}")
    inside = f"{target}/{path.relative_to(mounted)}" if path != mounted else target
    return f"file://{inside}" if parts.scheme else inside


def _file_inside(location: str, copy: Path) -> str:
    """Copy a local file to `copy`, and return its path in the build."""
    parts = urlsplit(location)
    path = Path(unquote(parts.path)).expanduser()
    if parts.scheme not in ("", "file") or not path.is_file():
        return location
    shutil.copyfile(path, copy)
    return f"{BUILD_DIR}/{copy.parent.name}/{copy.name}"


def _ca_bundle(pip_cert: str | None) -> Path | None:
    """Return the host's configured CA bundle; None: use the image's own."""
    candidates = [*(os.environ.get(name) for name in CA_VARIABLES), pip_cert]
    return next((Path(name) for name in candidates if name and Path(name).is_file()), None)


SECTIONS = ("global", "download", "wheel", "install")
"""Sections of pip.conf that apply to builds; later sections win."""

_PREFIX = "PIP_"


def pip_settings() -> dict[str, str]:
    """Return pip's settings by long option: variables win over files, later files over earlier ones."""
    found = {key: value for path in _files() for key, value in _settings_in(path)}
    variables = {
        name.removeprefix(_PREFIX).lower().replace("_", "-"): value
        for name, value in os.environ.items()
        if name.startswith(_PREFIX) and name != "PIP_CONFIG_FILE"
    }
    return found | variables


def _files() -> Iterator[Path]:
    chosen = os.environ.get("PIP_CONFIG_FILE")
    if chosen == os.devnull:
        return
    for folder in reversed((os.environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(":")):
        yield Path(folder) / "pip" / "pip.conf"
    yield Path("/etc/pip.conf")
    if not chosen:
        # pip's own order. PIP_CONFIG_FILE replaces the user's files.
        yield Path.home() / ".pip" / "pip.conf"
        yield (
            Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "pip" / "pip.conf"
        )
    yield Path(sys.prefix) / "pip.conf"
    if chosen:
        yield Path(chosen)


def _settings_in(path: Path) -> Iterator[tuple[str, str]]:
    parser = configparser.RawConfigParser()
    try:
        parser.read(path, encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError, OSError):
        # pip itself reports such a file.
        return
    for section in SECTIONS:
        if parser.has_section(section):
            yield from ((key.replace("_", "-"), value) for key, value in parser.items(section))
