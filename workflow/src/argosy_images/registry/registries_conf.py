"""Read registries.conf of the user or the site, like podman.

It sets mirrors and other locations of registries, and registries without TLS.
https://github.com/containers/image/blob/main/docs/containers-registries.conf.5.md
"""

import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from argosy_common.errors import ArgosyError
from argosy_images.registry.reference import Reference


@dataclass(frozen=True)
class _Place:
    """An entry of registries.conf for a registry or part of one; `where` is the file."""

    prefix: str
    location: str
    mirrors: tuple[str, ...]
    insecure: frozenset[str]
    blocked: bool
    where: Path

    def holds(self, name: str) -> bool:
        """Return whether an image's full name has this entry's prefix."""
        return f"{name}/".startswith(f"{self.prefix.rstrip('/')}/")


def places_of(
    reference: Reference, variables: Mapping[str, str] = os.environ
) -> tuple[Reference, ...]:
    """Return the references to try in order: mirrors first, then the registry's location.

    Tag and digest stay. The entry with the longest prefix applies, in the first file that has it.

    Raises:
        ArgosyError: with the file that blocks the registry, or is damaged.
    """
    name = f"{reference.host}/{reference.repository}"
    found = [place for place in _places(variables) if place.holds(name)]
    if not found:
        return (reference,)
    place = max(found, key=lambda each: len(each.prefix))
    if place.blocked:
        raise ArgosyError(f"{reference}: {place.where} blocks {place.prefix}")
    rest = name.removeprefix(place.prefix.rstrip("/"))
    return tuple(
        _moved_reference(reference, f"{to.rstrip('/')}{rest}", place)
        for to in (*place.mirrors, place.location)
    )


def is_said_insecure(reference: Reference, variables: Mapping[str, str] = os.environ) -> bool:
    """Return whether registries.conf sets `insecure = true` for the image's registry or a prefix of it."""
    name = f"{reference.host}/{reference.repository}"
    return any(
        f"{name}/".startswith(f"{insecure.rstrip('/')}/")
        for place in _places(variables)
        for insecure in place.insecure
    )


def settings_file(variables: Mapping[str, str] = os.environ) -> Path:
    """Return the path of the user's registries.conf, which may not exist."""
    if chosen := variables.get("CONTAINERS_REGISTRIES_CONF"):
        return Path(chosen)
    home = Path(variables.get("HOME") or Path.home())
    settings = Path(variables.get("XDG_CONFIG_HOME") or home / ".config")
    return settings / "containers/registries.conf"


def _moved_reference(reference: Reference, name: str, place: _Place) -> Reference:
    tag = f":{reference.tag}" if reference.tag else ""
    digest = f"@{reference.digest}" if reference.digest else ""
    try:
        return Reference.parse(f"{name}{tag}{digest}")
    except ArgosyError as problem:
        raise ArgosyError(f"{place.where}: {place.prefix}: {problem.problem}") from None


def _settings_files(variables: Mapping[str, str]) -> Iterator[Path]:
    own = settings_file(variables)
    system = Path("/etc/containers/registries.conf")
    for path in (own,) if variables.get("CONTAINERS_REGISTRIES_CONF") else (own, system):
        yield path
        yield from sorted(path.with_name(f"{path.name}.d").glob("*.conf"))


def _places(variables: Mapping[str, str]) -> Iterator[_Place]:
    for path in _settings_files(variables):
        try:
            content = tomllib.loads(path.read_text(encoding="utf-8"))
            yield from [_read_registry(registry, path) for registry in content.get("registry", ())]
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            continue
        except (OSError, ValueError, AttributeError, TypeError, RecursionError) as problem:
            raise ArgosyError(f"{path}: not a valid registries.conf: {problem}") from None


def _read_registry(registry: Mapping[str, Any], path: Path) -> _Place:
    location = str(registry.get("location") or registry.get("prefix") or "/")
    prefix = str(registry.get("prefix") or location)
    mirrors = [mirror for mirror in registry.get("mirror", ()) if mirror.get("location")]
    insecure = [str(mirror["location"]) for mirror in mirrors if mirror.get("insecure") is True]
    if registry.get("insecure") is True:
        insecure += [prefix, location]
    return _Place(
        prefix=prefix,
        location=location,
        mirrors=tuple(str(mirror["location"]) for mirror in mirrors),
        insecure=frozenset(insecure),
        blocked=registry.get("blocked") is True,
        where=path,
    )
