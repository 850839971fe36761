"""Which image of an archive is meant: by its name, and of its variants the one for this machine."""

import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from argosy.errors import ArgosyError, some
from argosy.images.interchange.opening import Archive
from argosy.images.oci import CONFIG_TYPES, NAME_ANNOTATION
from argosy.images.platforms import Platform, architecture, preferred

MOST_NESTED = 4
MOST_MANIFESTS = 1000
"""Of all indexes together: one may name the same index again and again."""

_NAMES = (NAME_ANNOTATION, "io.containerd.image.name")

_LONGEST_QUOTED = 200
"""Letters of a name in a message."""

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Found:
    """An image of an archive with all its names, by what tells it from others, its digest for instance."""

    key: str
    names: tuple[str, ...]
    content: Json


def chosen(
    archive: Archive, found: Sequence[Found], wanted: str, others: Collection[str] = ()
) -> Found:
    """Return the image of the name or digest `wanted`, or the only one there is.

    Args:
        others: what machines the archive has other images for.

    Raises:
        ArgosyError: when there is none, or several, with their names.
    """
    images: dict[str, Found] = {}
    for one in found:
        known = images.get(one.key)
        images[one.key] = Found(one.key, (*known.names, *one.names), one.content) if known else one
    matching = [one for one in images.values() if not wanted or wanted in (one.key, *one.names)]
    if len(matching) == 1:
        [only] = matching
        return replace(only, names=(wanted,)) if wanted in only.names else only
    # Those without a name are told apart by their digests.
    names = [(one.names or (one.key,))[0][:_LONGEST_QUOTED] for one in images.values()]
    there = names or [f"an image for {each}" for each in sorted(others)] or ["none"]
    # Somebody else's words, which the user may copy into a shell.
    source = shlex.quote(f"{archive.title}:{names[0]}") if names else ""
    which = f"an image {wanted!r}" if wanted else "one image"
    raise ArgosyError(
        f"{archive.title}: it must hold {which} for linux/{architecture()}; it holds: {some(there)}",
        f"name one: argosy image import {source} NAME" if source else "",
    )


@dataclass
class Index:
    """The images that an index of an archive names, directly or by indexes of it.

    Args:
        file_of: the file in which the archive has the manifest of a digest.
        others: kinds of machines that it has images for, which are not for this one.
    """

    archive: Archive
    file_of: Callable[[str], str]
    others: set[str] = field(default_factory=set)
    _read: int = 0

    def images(self, descriptors: Sequence[Json]) -> list[Found]:
        """Return the images that are for this machine.

        Several descriptors of one name are one image for several machines, and so are those without a
        name that say what machine they are for.
        """
        groups: dict[object, list[Json]] = {}
        for number, one in enumerate(descriptors):
            names = _names_of(one)
            key = names[0] if names else number if _platform(one) is None else ""
            groups.setdefault(key, []).append(one)
        found = ((self.best(group), group) for group in groups.values())
        return [
            Found(best[0], tuple(name for one in group for name in _names_of(one)), best[1])
            for best, group in found
            if best
        ]

    def best(self, descriptors: Sequence[Json], depth: int = 0) -> tuple[str, Json] | None:
        """Return digest and manifest of the image that this machine can run; None: there is none.

        Raises:
            ArgosyError: when a manifest is damaged, or there are too many.
        """
        if depth > MOST_NESTED:
            raise self.archive.error("index.json", "holds indexes in indexes without end")
        # What belongs to an image, such as a list of its packages, may be an artifact of its own.
        images = [one for one in descriptors if not one.get("artifactType")]
        platforms = [_platform(one) for one in images]
        self.others.update(str(one) for one in platforms if one and one.os != "unknown")
        for place in preferred(platforms):
            digest = images[place]["digest"]
            self._read += 1
            if self._read > MOST_MANIFESTS:
                told = f"names more than {MOST_MANIFESTS:,} manifests"
                raise self.archive.error("index.json", told)
            content = self.archive.read(self.file_of(digest), digest)
            if "manifests" in content:
                if inner := self.best(content["manifests"], depth + 1):
                    return inner
            elif (content["config"].get("mediaType") or "") in CONFIG_TYPES:
                return digest, content
        return None


def _platform(descriptor: Json) -> Platform | None:
    platform = descriptor.get("platform")
    return Platform.described(platform) if platform else None


def _names_of(descriptor: Json) -> list[str]:
    annotations = descriptor.get("annotations") or {}
    return [str(annotations[key]) for key in _NAMES if annotations.get(key)]
