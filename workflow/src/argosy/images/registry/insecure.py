"""Registries that a user's settings say may be spoken to without TLS: registries.conf, as podman has it.

https://github.com/containers/image/blob/main/docs/containers-registries.conf.5.md
"""

import os
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

from argosy.errors import ArgosyError
from argosy.images.registry.reference import Reference


def is_said_insecure(reference: Reference, variables: Mapping[str, str] = os.environ) -> bool:
    """Return whether a file says `insecure = true` of the image's registry, or of its part with the image.

    Raises:
        ArgosyError: naming a file that cannot be understood.
    """
    name = f"{reference.host}/{reference.repository}"
    return any(
        f"{name}/".startswith(f"{place.rstrip('/')}/")
        for path in _files(variables)
        for place in _insecure_places(path)
    )


def settings_file(variables: Mapping[str, str] = os.environ) -> Path:
    """Return the user's own file, which need not be there."""
    if chosen := variables.get("CONTAINERS_REGISTRIES_CONF"):
        return Path(chosen)
    home = Path(variables.get("HOME") or Path.home())
    settings = Path(variables.get("XDG_CONFIG_HOME") or home / ".config")
    return settings / "containers/registries.conf"


def _files(variables: Mapping[str, str]) -> Iterator[Path]:
    own = settings_file(variables)
    system = Path("/etc/containers/registries.conf")
    for path in (own,) if variables.get("CONTAINERS_REGISTRIES_CONF") else (own, system):
        yield path
        yield from sorted(path.with_name(f"{path.name}.d").glob("*.conf"))


def _insecure_places(path: Path) -> Iterator[str]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        for registry in content.get("registry", ()):
            if registry.get("insecure") is True:
                yield str(registry.get("prefix") or registry.get("location") or "/")
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return
    except (OSError, ValueError, AttributeError, TypeError) as problem:
        raise ArgosyError(f"{path}: not a file of registries: {problem}") from None
