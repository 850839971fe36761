"""The OCI image format: its words, platforms and configurations (https://github.com/opencontainers/image-spec)."""

import hashlib
import json
import platform
import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict

MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
CONFIG_TYPES = (CONFIG_TYPE, "application/vnd.docker.container.image.v1+json", "")
"""Types of image configurations; artifacts have others. Old tools leave the type empty."""
LAYER_TYPE = "application/vnd.oci.image.layer.v1.tar"
INDEX_TYPE = "application/vnd.oci.image.index.v1+json"
NAME_ANNOTATION = "org.opencontainers.image.ref.name"

LAYOUT_FILE = "oci-layout"
LAYOUT = {"imageLayoutVersion": "1.0.0"}

DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


_ALIASES = {"x86_64": "amd64", "x86-64": "amd64", "aarch64": "arm64"}

_BASELINES = {"amd64": ("v1",), "arm64": ("v8", "8")}
"""Variants that all machines of an architecture are. Other variants want processors that are newer."""

_LONGEST_QUOTED = 80


@dataclass(frozen=True)
class Platform:
    """An operating system, an architecture, and a variant of it that not all of its machines are."""

    os: str
    architecture: str
    variant: str = ""

    @classmethod
    def named(cls, os: str, machine: str, variant: str = "") -> "Platform":
        """Return the platform of these names, each of which may be written in several ways."""
        machine, variant = machine.lower(), variant.lower()
        machine = _ALIASES.get(machine, machine) or architecture()
        is_baseline = variant in _BASELINES.get(machine, ())
        return cls(os.lower() or "linux", machine, "" if is_baseline else variant)

    @classmethod
    def parse(cls, text: str) -> "Platform":
        """Return the platform of `linux/amd64/v2`, `linux/x86_64`, `amd64` or `linux`."""
        first, _, rest = text.partition("/")
        if rest:
            return cls.named(first, *rest.split("/", maxsplit=1))
        return cls.named("", "" if first.lower() == "linux" else first)

    @classmethod
    def described(cls, values: Mapping[str, Any]) -> "Platform":
        """Return the platform that a JSON object tells; what it leaves out is as here."""
        return cls.named(*(str(values.get(key) or "") for key in ("os", "architecture", "variant")))

    def __str__(self) -> str:
        parts = (self.os, self.architecture, self.variant)
        return "/".join(part for part in parts if part)[:_LONGEST_QUOTED]

    @property
    def is_own(self) -> bool:
        """Whether machines like this one have this architecture, of whatever variant."""
        return (self.os, self.architecture) == ("linux", architecture())


def architecture() -> str:
    """Return this machine's architecture, by the name that images use."""
    return _ALIASES.get(platform.machine(), platform.machine())


def preferred(platforms: Sequence[Platform | None]) -> list[int]:
    """Return the places of images that run on all machines like this one, the best one first.

    One of which no platform is known is tried after those that are known. A variant for newer processors
    is none of them: the nodes may be older than this machine.
    """
    own = Platform("linux", architecture())
    wanted = [place for place, one in enumerate(platforms) if one == own]
    return wanted + [place for place, one in enumerate(platforms) if one is None]


_READ = (
    *("Env", "WorkingDir", "User", "Entrypoint", "Cmd", "Labels", "ExposedPorts", "Volumes"),
    *("StopSignal", "Shell", "OnBuild"),
)
"""Fields of an image configuration that have names of their own here."""

_NOT_KEPT = {*_READ, "Hostname", "Domainname", "Image"}
"""The last three are of the container in which a builder ran its last step, not of the image."""

_LONGEST_PATH = 4096
"""Letters, as the kernel has it."""

_DEEPEST = 32
"""Lists in lists of other fields, of somebody else's image; Healthcheck has two."""


class ImageConfig(BaseModel):
    """The settings of ENV, WORKDIR, CMD and their like. A command that is not set is None.

    `shell` takes RUN, CMD and ENTRYPOINT without brackets in images built upon this one, and `on_build` are
    the instructions of ONBUILD for those. `others` are fields without a use here, such as Healthcheck: an
    exported image has them as they came.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    environment: Mapping[str, str] = {}
    workdir: str = "/"
    user: str = ""
    entrypoint: tuple[str, ...] | None = None
    cmd: tuple[str, ...] | None = None
    labels: Mapping[str, str] = {}
    exposed: tuple[str, ...] = ()
    volumes: tuple[str, ...] = ()
    stop_signal: str = ""
    shell: tuple[str, ...] = ()
    on_build: tuple[str, ...] = ()
    others: Mapping[str, Any] = {}
    author: str = ""

    @classmethod
    def from_oci(cls, config: Mapping[str, Any]) -> "ImageConfig":
        """Read the `config` object of an OCI or Docker image configuration.

        Raises:
            ValueError, TypeError, AttributeError: when it is none.
        """
        pairs = (entry.partition("=") for entry in config.get("Env") or ())
        return cls(
            environment={name: value for name, _, value in pairs},
            workdir=_workdir(config.get("WorkingDir") or "/"),
            user=config.get("User") or "",
            entrypoint=_command(config.get("Entrypoint")),
            cmd=_command(config.get("Cmd")),
            labels=config.get("Labels") or {},
            exposed=tuple(sorted(config.get("ExposedPorts") or ())),
            volumes=tuple(sorted(config.get("Volumes") or ())),
            stop_signal=config.get("StopSignal") or "",
            shell=_strings(config.get("Shell")),
            on_build=_strings(config.get("OnBuild")),
            others=_writable(
                {name: config[name] for name in config.keys() - _NOT_KEPT if config[name]}
            ),
        )

    def to_oci(self, diff_ids: Sequence[str]) -> dict[str, Any]:
        """Return the OCI image configuration: https://github.com/opencontainers/image-spec/blob/main/config.md.

        It holds no times, so that it is the same for the same image.
        """
        config: dict[str, Any] = {
            **self.others,
            "User": self.user,
            "Env": [f"{name}={value}" for name, value in self.environment.items()],
            "Entrypoint": self.entrypoint and list(self.entrypoint),
            "Cmd": self.cmd and list(self.cmd),
            "WorkingDir": self.workdir,
            "Labels": dict(self.labels),
            "ExposedPorts": {port: {} for port in self.exposed},
            "Volumes": {path: {} for path in self.volumes},
            "StopSignal": self.stop_signal,
            "Shell": list(self.shell),
            "OnBuild": list(self.on_build),
        }
        return {
            **({"author": self.author} if self.author else {}),
            "architecture": architecture(),
            "os": "linux",
            "config": {name: value for name, value in config.items() if value},
            "rootfs": {"type": "layers", "diff_ids": list(diff_ids)},
            # podman builds upon no image whose history has another length than its list of layers.
            "history": [{"created_by": "argosy"}] * len(diff_ids),
        }

    def digest(self, diff_ids: Sequence[str]) -> str:
        """Return the image's digest: that of its OCI configuration, which other tools call its id."""
        return f"sha256:{hashlib.sha256(self.oci_bytes(diff_ids)).hexdigest()}"

    def oci_bytes(self, diff_ids: Sequence[str]) -> bytes:
        """Return the OCI image configuration as a file."""
        return json.dumps(self.to_oci(diff_ids), sort_keys=True, separators=(",", ":")).encode()


def absolute(path: str, start: str = "/") -> str:
    """Return a path of an image without `.`, `..` and doubled slashes; a relative one begins at `start`."""
    return "/" + posixpath.normpath(posixpath.join(start, path)).lstrip("/")


def _workdir(path: str) -> str:
    if len(path) > _LONGEST_PATH:
        raise ValueError
    return absolute(path)


def _command(value: Sequence[str] | str | None) -> tuple[str, ...] | None:
    if isinstance(value, str):
        return ("/bin/sh", "-c", value)
    return tuple(value) if value else None


def _strings(value: Sequence[str] | None) -> tuple[str, ...]:
    if isinstance(value, str):
        raise TypeError
    return tuple(value or ())


def _writable(values: dict[str, Any]) -> dict[str, Any]:
    """Return values that come back the same from a file in JSON; NaN and what nests too deep do not."""
    if _nests(values, _DEEPEST):
        raise ValueError
    json.dumps(values, allow_nan=False)
    return dict(sorted(values.items()))


def _nests(value: Any, most: int) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return not most or any(_nests(each, most - 1) for each in inner)
