"""How an image's programs are started: environment, working directory, command, labels."""

import hashlib
import json
import posixpath
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from argosy.images.platforms import architecture


class ImageConfig(BaseModel):
    """What ENV, WORKDIR, CMD and their like set. `None` for a command: none is set."""

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
    author: str = ""

    @classmethod
    def from_oci(cls, config: Mapping[str, Any]) -> "ImageConfig":
        """Read the `config` object of an OCI or Docker image configuration."""
        pairs = (entry.partition("=") for entry in config.get("Env") or ())
        return cls(
            environment={name: value for name, _, value in pairs},
            workdir=absolute(config.get("WorkingDir") or "/"),
            user=config.get("User") or "",
            entrypoint=_command(config.get("Entrypoint")),
            cmd=_command(config.get("Cmd")),
            labels=config.get("Labels") or {},
            exposed=tuple(sorted(config.get("ExposedPorts") or ())),
            volumes=tuple(sorted(config.get("Volumes") or ())),
            stop_signal=config.get("StopSignal") or "",
        )

    def to_oci(self, diff_ids: Sequence[str]) -> dict[str, Any]:
        """Return the OCI image configuration: https://github.com/opencontainers/image-spec/blob/main/config.md.

        It holds no times, so that it is the same for the same image.
        """
        config: dict[str, Any] = {
            "User": self.user,
            "Env": [f"{name}={value}" for name, value in self.environment.items()],
            "Entrypoint": self.entrypoint and list(self.entrypoint),
            "Cmd": self.cmd and list(self.cmd),
            "WorkingDir": self.workdir,
            "Labels": dict(self.labels),
            "ExposedPorts": {port: {} for port in self.exposed},
            "Volumes": {path: {} for path in self.volumes},
            "StopSignal": self.stop_signal,
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


def _command(value: Sequence[str] | str | None) -> tuple[str, ...] | None:
    if isinstance(value, str):
        return ("/bin/sh", "-c", value)
    return tuple(value) if value else None
