"""Words of the OCI image format: https://github.com/opencontainers/image-spec."""

import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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
