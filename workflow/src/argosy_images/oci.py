"""The OCI image format: media types, platforms, configurations (github.com/opencontainers/image-spec)."""

import hashlib
import json
import platform
import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict

MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
CONFIG_TYPES = (CONFIG_TYPE, "application/vnd.docker.container.image.v1+json", "")
"""Media types of image configurations; artifacts have others. Old tools leave the type empty."""
LAYER_TYPE = "application/vnd.oci.image.layer.v1.tar"
INDEX_TYPE = "application/vnd.oci.image.index.v1+json"
NAME_ANNOTATION = "org.opencontainers.image.ref.name"

LAYOUT_FILE = "oci-layout"
LAYOUT = {"imageLayoutVersion": "1.0.0"}

DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def not_a_tar(kinds: Iterable[str]) -> str | None:
    """Return the first media type of a layer that is not a readable tar, or None. Old tools give none."""
    return next((one for one in kinds if one and not _TAR.search(one)), None)


_TAR = re.compile(r"tar(?!.*\+encrypted)")

_ALIASES = {"x86_64": "amd64", "x86-64": "amd64", "aarch64": "arm64"}

_BASELINES = {"amd64": ("v1",), "arm64": ("v8", "8")}
"""Variants that all machines of an architecture support; other variants require newer processors."""

_LONGEST_QUOTED = 80


@dataclass(frozen=True)
class Platform:
    """An operating system, an architecture, and a variant if not all machines support it."""

    os: str
    architecture: str
    variant: str = ""

    @classmethod
    def named(cls, os: str, machine: str, variant: str = "") -> "Platform":
        """Return the platform with these names, in any of their spellings."""
        machine, variant = machine.lower(), variant.lower()
        machine = _ALIASES.get(machine, machine) or architecture()
        is_baseline = variant in _BASELINES.get(machine, ())
        return cls(os.lower() or "linux", machine, "" if is_baseline else variant)

    @classmethod
    def parse(cls, text: str) -> "Platform":
        """Parse `linux/amd64/v2`, `linux/x86_64`, `amd64` or `linux`."""
        first, _, rest = text.partition("/")
        if rest:
            return cls.named(first, *rest.split("/", maxsplit=1))
        return cls.named("", "" if first.lower() == "linux" else first)

    @classmethod
    def described(cls, values: Mapping[str, Any]) -> "Platform":
        """Return the platform in a JSON object; missing fields are this machine's."""
        return cls.named(*(str(values.get(key) or "") for key in ("os", "architecture", "variant")))

    def __str__(self) -> str:
        parts = (self.os, self.architecture, self.variant)
        return "/".join(part for part in parts if part)[:_LONGEST_QUOTED]

    @property
    def is_own(self) -> bool:
        """Whether this machine has this architecture, in any variant."""
        return (self.os, self.architecture) == ("linux", architecture())


def architecture() -> str:
    """Return this machine's architecture by its name in images, such as amd64."""
    return _ALIASES.get(platform.machine(), platform.machine())


def preferred(platforms: Sequence[Platform | None]) -> list[int]:
    """Return the indices of images for all machines of this architecture, the best one first.

    Images of unknown platform come last. Variants for newer processors are left out: nodes may be older
    than this machine.
    """
    own = Platform("linux", architecture())
    wanted = [place for place, one in enumerate(platforms) if one == own]
    return wanted + [place for place, one in enumerate(platforms) if one is None]


_READ = (
    *("Env", "WorkingDir", "User", "Entrypoint", "Cmd", "Labels", "ExposedPorts", "Volumes"),
    *("StopSignal", "Shell", "OnBuild"),
)
"""Fields of an image configuration with their own fields in ImageConfig."""

_NOT_KEPT = {*_READ, "Hostname", "Domainname", "Image"}
"""Fields left out of `others`; the last three describe a builder's container, not the image."""

_LONGEST_PATH = 4096
"""Characters; the kernel's PATH_MAX."""

_DEEPEST = 32
"""Nesting of other fields in an untrusted image; Healthcheck has 2."""


class StrictModel(BaseModel):
    """Immutable model without unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ImageConfig(StrictModel):
    """The settings of ENV, WORKDIR, CMD and similar instructions; an unset command is None.

    `shell` runs commands in shell form, and `on_build` has the ONBUILD instructions, for images built on
    this one. `others` are fields that Argosy ignores, such as Healthcheck; exported images keep them.
    """

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
            ValueError, TypeError, AttributeError: if it is invalid.
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

        It has no times, so that the same image gives the same configuration.
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
            # podman rejects bases whose history and layers differ in length.
            "history": [{"created_by": "argosy"}] * len(diff_ids),
        }

    def digest(self, diff_ids: Sequence[str]) -> str:
        """Return the image's digest: of its OCI configuration, which other tools call the image id."""
        return f"sha256:{hashlib.sha256(self.oci_bytes(diff_ids)).hexdigest()}"

    def oci_bytes(self, diff_ids: Sequence[str]) -> bytes:
        """Return the OCI image configuration in JSON."""
        return json.dumps(self.to_oci(diff_ids), sort_keys=True, separators=(",", ":")).encode()


def absolute(path: str, start: str = "/") -> str:
    """Normalize a path of an image; a relative path begins at `start`."""
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
    """Check that the values can be written as JSON (no NaN, not nested too deeply); return them sorted."""
    if _nests(values, _DEEPEST):
        raise ValueError
    json.dumps(values, allow_nan=False)
    return dict(sorted(values.items()))


def _nests(value: Any, most: int) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return not most or any(_nests(each, most - 1) for each in inner)
