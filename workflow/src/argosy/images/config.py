"""How an image's programs are started: environment, working directory, command, labels."""

import hashlib
import json
import posixpath
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from argosy.images.oci import architecture

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
