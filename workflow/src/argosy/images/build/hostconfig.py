"""What of this host a build may see: pip's configuration, proxies, the CA bundle, local wheel folders.

All of it reaches the build through variables and mounted folders, so none of it stays in the image.
"""

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from argosy.images.build.pip_settings import pip_settings
from argosy.images.container import Bind

BUILD_DIR = "/dev/argosy"
"""Where a build sees what is the host's: in /dev, which no image keeps, so that nothing of it remains."""

PROXY_VARIABLES = ("http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy")
CA_VARIABLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
LOCATION_KEYS = ("find-links", "index-url", "extra-index-url")
FILE_KEYS = ("constraint", "build-constraint", "client-cert")
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
"""They say where this host's packages go, and would send an image's there."""


@dataclass(frozen=True)
class HostConfig:
    """Variables and mounts for a build; `folder` is where the CA bundle was copied to."""

    environment: Mapping[str, str]
    binds: tuple[Bind, ...]


def read_host_config(folder: Path, downloads: Path) -> HostConfig:
    """Collect this host's settings for builds.

    Files that builds read are written into the empty `folder`; what they download is kept in
    `downloads`.
    """
    pip = pip_settings()
    mounts: dict[Path, str] = {}
    environment = {name: value for name, value in os.environ.items() if _is_proxy(name)}
    for key in pip.keys() - HOST_KEYS:
        environment[_variable(key)] = _setting_inside(key, pip[key], folder, mounts)
    bundle = _ca_bundle(pip.get("cert"))
    if bundle:
        shutil.copyfile(bundle, folder / "ca-certificates.crt")
        inside = f"{BUILD_DIR}/host/ca-certificates.crt"
        environment |= dict.fromkeys((*CA_VARIABLES, "PIP_CERT"), inside)
    # apt would change to its own user, and no other id than root's is mapped.
    (folder / "apt.conf").write_text('APT::Sandbox::User "root";\n', encoding="ascii")
    environment["APT_CONFIG"] = f"{BUILD_DIR}/host/apt.conf"
    # Downloads are kept between builds, outside the image.
    environment["PIP_CACHE_DIR"] = f"{BUILD_DIR}/cache/pip"
    packages = downloads / "pip"
    packages.mkdir(parents=True, exist_ok=True, mode=0o700)
    binds = [Bind(folder, f"{BUILD_DIR}/host")]
    binds += [Bind(packages, f"{BUILD_DIR}/cache/pip")]
    binds += [Bind(path, target) for path, target in mounts.items()]
    return HostConfig(environment, tuple(binds))


def _is_proxy(name: str) -> bool:
    return name.lower() in PROXY_VARIABLES


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
    """Rewrite a local folder or file:// URL to where it is mounted in the build; else as it is."""
    parts = urlsplit(location)
    if parts.scheme not in ("", "file"):
        return location
    path = Path(unquote(parts.path)).expanduser().absolute()
    if not path.is_dir():
        return location
    # An index's pages point to files beside the index, so its parent has to be seen as well.
    mounted = path if key == "find-links" else path.parent
    target = mounts.setdefault(mounted, f"{BUILD_DIR}/wheels-{len(mounts)}")
    inside = f"{target}/{path.relative_to(mounted)}" if path != mounted else target
    return f"file://{inside}" if parts.scheme else inside


def _file_inside(name: str, copy: Path) -> str:
    """Copy a file of this host to `copy`, in the folder that builds see, and return its name there."""
    path = Path(name).expanduser()
    if not path.is_file():
        return name
    shutil.copyfile(path, copy)
    return f"{BUILD_DIR}/host/{copy.name}"


def _ca_bundle(pip_cert: str | None) -> Path | None:
    """The CA bundle that this host was told to use; None means that the image's own will do."""
    candidates = [*(os.environ.get(name) for name in CA_VARIABLES), pip_cert]
    return next((Path(name) for name in candidates if name and Path(name).is_file()), None)
