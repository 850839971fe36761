"""Find and describe images in archives of `podman save`, `docker save`, `skopeo copy` and udocker.

OCI: https://github.com/opencontainers/image-spec/blob/main/image-layout.md. Docker: `manifest.json` names
the configuration and the layers. skopeo's `dir:` has an OCI manifest of that name, and files named by
digest. All files with a digest are verified.
"""

import posixpath
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from argosy_common.errors import ArgosyError, some
from argosy_images.interchange.opening import PLAIN_TREE, Archive
from argosy_images.oci import (
    CONFIG_TYPES,
    DIGEST,
    NAME_ANNOTATION,
    Platform,
    architecture,
    not_a_tar,
    preferred,
)

MOST_NESTED = 4
MOST_MANIFESTS = 1000
"""Maximum number of manifests read, since an index may contain itself."""

_NAMES = (NAME_ANNOTATION, "io.containerd.image.name")

_LONGEST_QUOTED = 200
"""Characters of a name in a message."""

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Found:
    """An image of an archive with all its names; `key` identifies it, for example its digest."""

    key: str
    names: tuple[str, ...]
    content: Json


def chosen(
    archive: Archive, found: Sequence[Found], wanted: str, others: Collection[str] = ()
) -> Found:
    """Choose the image with the name or digest `wanted`, or the only image.

    Args:
        others: platforms of the archive's images for other machines.

    Raises:
        ArgosyError: if there is none or several, with their names.
    """
    images: dict[str, Found] = {}
    for one in found:
        known = images.get(one.key)
        images[one.key] = Found(one.key, (*known.names, *one.names), one.content) if known else one
    matching = [one for one in images.values() if not wanted or wanted in (one.key, *one.names)]
    if len(matching) == 1:
        [only] = matching
        return replace(only, names=(wanted,)) if wanted in only.names else only
    # Images without a name are listed by digest.
    names = [(one.names or (one.key,))[0][:_LONGEST_QUOTED] for one in images.values()]
    there = names or [f"an image for {each}" for each in sorted(others)] or ["none"]
    # Untrusted text that the user may copy into a shell.
    source = shlex.quote(f"{archive.title}:{names[0]}") if names else ""
    which = f"an image {wanted!r}" if wanted else "one image"
    raise ArgosyError(
        f"{archive.title}: it must contain {which} for linux/{architecture()}; it contains: "
        f"{some(there)}",
        f"name one: argosy image import {source} NAME" if source else "",
    )


@dataclass
class Index:
    """The images that an archive's index names, directly or by nested indexes.

    Args:
        file_of: return the archive's file of a manifest's digest.
        others: platforms of images for other machines.
    """

    archive: Archive
    file_of: Callable[[str], str]
    others: set[str] = field(default_factory=set)
    _read: int = 0

    def images(self, descriptors: Sequence[Json]) -> list[Found]:
        """Return the images for this machine.

        Descriptors of the same name are one image for several platforms. So are all descriptors with a
        platform but no name.
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
        """Return digest and manifest of the best image for this machine; None if there is none.

        Raises:
            ArgosyError: if a manifest is damaged, or there are too many.
        """
        if depth > MOST_NESTED:
            raise self.archive.error("index.json", "nests image indexes too deeply")
        # Artifacts are attachments of an image, such as a list of its packages.
        images = [one for one in descriptors if not one.get("artifactType")]
        platforms = [_platform(one) for one in images]
        self.others.update(str(one) for one in platforms if one and one.os != "unknown")
        for place in preferred(platforms):
            digest = images[place]["digest"]
            self._read += 1
            if self._read > MOST_MANIFESTS:
                problem = f"names more than {MOST_MANIFESTS:,} manifests"
                raise self.archive.error("index.json", problem)
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


MOST_LAYERS = 500
"""Limit of the kernel's overlayfs; Docker's limit is 127."""


@dataclass(frozen=True)
class IncomingLayer:
    """A layer's tar, compressed or not.

    Args:
        member: the archive's file of the layer.
        digest: of the file; None if the archive has none.
        diff_id: digest of the uncompressed tar.
    """

    member: str
    digest: str | None
    diff_id: str
    instruction: str


@dataclass(frozen=True)
class IncomingImage:
    """The description of an image in an archive."""

    reference: str
    config: Mapping[str, Any]
    layers: tuple[IncomingLayer, ...]


def describe(archive: Archive, wanted: str = "") -> IncomingImage:
    """Describe the archive's image for this machine.

    Args:
        wanted: the name or digest of one image of several.

    Raises:
        ArgosyError: if there is no such image, or several.
    """
    try:
        if "index.json" in archive:
            return _describe_oci(archive, wanted)
        if "manifest.json" in archive:
            content = archive.read("manifest.json")
            describe_it = _describe_docker if isinstance(content, list) else _describe_dir
            return describe_it(archive, content, wanted)
        if "TAG" in archive:
            return _describe_udocker(archive)
    except (AttributeError, KeyError, TypeError, IndexError) as problem:
        raise ArgosyError(f"{archive.title}: not an image description: {problem!r}") from None
    raise ArgosyError(
        f"{archive.title}: neither an OCI archive nor one of docker save: it has no index.json and no "
        "manifest.json",
        PLAIN_TREE,
    )


def _describe_oci(archive: Archive, wanted: str) -> IncomingImage:
    def file_of(digest: str) -> str:
        return f"blobs/{_checked(archive, digest).replace(':', '/')}"

    index = Index(archive, file_of)
    images = index.images(archive.read("index.json")["manifests"])
    image = chosen(archive, images, wanted, index.others)
    return _of_manifest(archive, next(iter(image.names), ""), image.content, file_of)


def _describe_dir(archive: Archive, content: Json, wanted: str) -> IncomingImage:
    def blob_of(digest: str) -> str:
        return _checked(archive, digest).removeprefix("sha256:")

    if "manifests" in content:
        index = Index(archive, lambda digest: f"{blob_of(digest)}.manifest.json")
        content = chosen(archive, index.images(content["manifests"]), wanted, index.others).content
    return _of_manifest(archive, "", content, blob_of)


def _of_manifest(
    archive: Archive, reference: str, manifest: Json, file_of: Callable[[str], str]
) -> IncomingImage:
    if kind := not_a_tar(str(layer.get("mediaType") or "") for layer in manifest["layers"]):
        problem = f"a layer of type {kind[:_LONGEST_QUOTED]} cannot be unpacked"
        raise ArgosyError(f"{archive.title}: {problem}")
    digests = [str(layer["digest"]) for layer in manifest["layers"]]
    config = str(manifest["config"]["digest"])
    layers = [(file_of(digest), digest) for digest in digests]
    return _image(archive, reference, archive.read(file_of(config), config), layers)


def _describe_docker(archive: Archive, content: Sequence[Json], wanted: str) -> IncomingImage:
    # Images of the same configuration are one.
    found = [
        Found(str(one["Config"]), tuple(map(str, one.get("RepoTags") or ())), one)
        for one in content
    ]
    image = chosen(archive, found, wanted)
    name = str(image.content["Config"])
    stem = posixpath.basename(name).removesuffix(".json")
    digest = f"sha256:{stem}" if DIGEST.fullmatch(f"sha256:{stem}") else None
    layers = [(str(layer), None) for layer in image.content["Layers"]]
    return _image(archive, next(iter(image.names), ""), archive.read(name, digest), layers)


def _describe_udocker(archive: Archive) -> IncomingImage:
    """Describe an image that udocker pulled (with a manifest) or loaded (with a list of layers)."""
    with archive.open("TAG") as stream:
        # The path of the repository, a colon and the tag.
        repository, _, tag = stream.read(4096).decode(errors="replace").strip().rpartition(":")
    reference = f"{repository.rpartition('/repos/')[2]}:{tag}"
    if "ancestry" in archive:
        files = [(f"{layer}.layer", None) for layer in reversed(archive.read("ancestry"))]
        return _image(archive, reference, archive.read("container.json"), files)
    manifest = archive.read("manifest")
    if "layers" not in manifest:
        raise archive.error("manifest", "has an obsolete format (schema 1): pull it again")
    return _of_manifest(archive, reference, manifest, str)


def _image(
    archive: Archive, reference: str, config: Any, layers: Sequence[tuple[str, str | None]]
) -> IncomingImage:
    kind = Platform.described(config)
    if not kind.is_own:
        raise ArgosyError(
            f"{archive.title}: made for {kind}, but this machine is linux/{architecture()}"
        )
    diff_ids = config["rootfs"]["diff_ids"]
    if len(diff_ids) != len(layers):
        raise ArgosyError(
            f"{archive.title}: {len(layers)} layers, but {len(diff_ids)} digests of layers"
        )
    if not layers:
        raise ArgosyError(f"{archive.title}: this image has no files")
    if len(layers) > MOST_LAYERS:
        raise ArgosyError(f"{archive.title}: more than {MOST_LAYERS} layers")
    for diff_id in diff_ids:
        _checked(archive, diff_id)
    names = _instructions(config, len(layers))
    found = zip(layers, diff_ids, names, strict=True)
    return IncomingImage(
        str(reference or archive.name),
        config,
        tuple(IncomingLayer(*layer, diff_id, name) for layer, diff_id, name in found),
    )


def _instructions(config: Mapping[str, Any], number: int) -> list[str]:
    """Return each layer's instruction from the image's history, or `layer N`."""
    history = [one for one in config.get("history") or () if not one.get("empty_layer")]
    made_by = [str(one.get("created_by") or "").strip() for one in history]
    if len(made_by) != number:
        made_by = [""] * number
    return [text or f"layer {place}" for place, text in enumerate(made_by, start=1)]


def _checked(archive: Archive, digest: str) -> str:
    if not DIGEST.fullmatch(digest):
        raise ArgosyError(f"{archive.title}: {digest[:100]!r} is not a SHA-256 digest")
    return digest
