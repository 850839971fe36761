"""Reads images that other tools wrote: `podman save`, `docker save`, `skopeo copy`, udocker's folder.

OCI: https://github.com/opencontainers/image-spec/blob/main/image-layout.md. Docker: `manifest.json`
names the configuration and the layers. Everything is checked against the digest that names it.
"""

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from argosy.errors import ArgosyError
from argosy.images.config import architecture
from argosy.images.interchange.opening import Archive
from argosy.images.oci import DIGEST, NAME_ANNOTATION

MOST_NESTED = 4
MOST_MANIFESTS = 1000
"""Of all indexes together: one may name the same index again and again."""
MOST_LAYERS = 500
"""The kernel's overlay takes no more; Docker takes 127."""


@dataclass(frozen=True)
class IncomingLayer:
    """A layer's tar, compressed or not.

    Args:
        digest: of the file, where the archive tells it.
        diff_id: of the tar.
    """

    member: str
    digest: str | None
    diff_id: str
    instruction: str


@dataclass(frozen=True)
class IncomingImage:
    """An image as an archive describes it."""

    reference: str
    config: Mapping[str, Any]
    layers: tuple[IncomingLayer, ...]


def describe(archive: Archive) -> IncomingImage:
    """Return the one image of the archive that is for this machine.

    Raises:
        ArgosyError: naming what is wrong, when there is none, or several.
    """
    try:
        if "index.json" in archive:
            return _describe_oci(archive)
        if "manifest.json" in archive:
            return _describe_docker(archive)
        if "TAG" in archive:
            return _describe_udocker(archive)
    except (AttributeError, KeyError, TypeError, IndexError) as problem:
        raise ArgosyError(
            f"{archive.title}: not the description of an image: {problem!r}"
        ) from None
    raise ArgosyError(
        f"{archive.title}: neither an OCI archive nor one of docker save: it has no index.json and no "
        "manifest.json"
    )


def _describe_oci(archive: Archive) -> IncomingImage:
    found = _manifests(archive, archive.read("index.json")["manifests"], "", 0, [])
    here = [one for one in found if one[2] in (None, ("linux", architecture()))]
    if len(here) != 1:
        names = ", ".join(name or "without a name" for name, _, _ in here) or "none"
        raise ArgosyError(
            f"{archive.title}: it must hold one image for linux/{architecture()}; it holds: {names}"
        )
    [(reference, manifest, _)] = here
    digests = [str(layer["digest"]) for layer in manifest["layers"]]
    blobs = [(_blob(archive, digest), digest) for digest in digests]
    config = archive.read(
        _blob(archive, manifest["config"]["digest"]), manifest["config"]["digest"]
    )
    return _image(archive, reference, config, blobs)


Found = tuple[str, Mapping[str, Any], tuple[str, str] | None]


def _manifests(
    archive: Archive,
    descriptors: Sequence[Mapping[str, Any]],
    above: str,
    depth: int,
    read: list[str],
) -> list[Found]:
    """Name, manifest and platform of each image, those in indexes of indexes included.

    Args:
        read: the digests of all that were read for it, to which it adds.
    """
    if depth > MOST_NESTED:
        raise archive.error("index.json", "holds indexes in indexes without end")
    found: list[Found] = []
    for descriptor in descriptors:
        if len(read) == MOST_MANIFESTS:
            raise archive.error("index.json", f"names more than {MOST_MANIFESTS:,} manifests")
        read.append(descriptor["digest"])
        content = archive.read(_blob(archive, descriptor["digest"]), descriptor["digest"])
        name = (descriptor.get("annotations") or {}).get(NAME_ANNOTATION) or above
        if "manifests" in content:
            found += _manifests(archive, content["manifests"], name, depth + 1, read)
            continue
        platform = descriptor.get("platform")
        kind = (platform["os"], platform["architecture"]) if platform else None
        found.append((str(name), content, kind))
    return found


def _describe_docker(archive: Archive) -> IncomingImage:
    images = archive.read("manifest.json")
    if len(images) != 1:
        raise archive.error("manifest.json", f"must name one image; it names {len(images)}")
    name = str(images[0]["Config"])
    stem = posixpath.basename(name).removesuffix(".json")
    digest = f"sha256:{stem}" if DIGEST.fullmatch(f"sha256:{stem}") else None
    reference = (images[0].get("RepoTags") or [""])[0]
    layers = [(str(layer), None) for layer in images[0]["Layers"]]
    return _image(archive, reference, archive.read(name, digest), layers)


def _describe_udocker(archive: Archive) -> IncomingImage:
    """Describe what udocker pulled, by its manifest, or loaded, by a list of layers from the uppermost."""
    with archive.open("TAG") as stream:
        # The path of the repository, a colon and the tag.
        repository, _, tag = stream.read(4096).decode(errors="replace").strip().rpartition(":")
    reference = f"{repository.rpartition('/repos/')[2]}:{tag}"
    if "ancestry" in archive:
        files = [(f"{layer}.layer", None) for layer in reversed(archive.read("ancestry"))]
        return _image(archive, reference, archive.read("container.json"), files)
    manifest = archive.read("manifest")
    if "layers" not in manifest:
        raise archive.error(
            "manifest", "is of a format that was given up (schema 1): pull it again"
        )
    config = str(manifest["config"]["digest"])
    digests = [str(layer["digest"]) for layer in manifest["layers"]]
    found = archive.read(config, config)
    return _image(archive, reference, found, [(digest, digest) for digest in digests])


def _image(
    archive: Archive, reference: str, config: Any, layers: Sequence[tuple[str, str | None]]
) -> IncomingImage:
    kind = f"{config['os']}/{config['architecture']}"
    if kind != f"linux/{architecture()}":
        raise ArgosyError(f"{archive.title}: made for {kind[:80]}; this is linux/{architecture()}")
    diff_ids = config["rootfs"]["diff_ids"]
    if len(diff_ids) != len(layers):
        raise ArgosyError(
            f"{archive.title}: {len(layers)} layers, and digests for {len(diff_ids)} of them"
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
    """Return what made each layer, where the image tells."""
    history = [one for one in config.get("history") or () if not one.get("empty_layer")]
    told = [str(one.get("created_by") or "").strip() for one in history]
    if len(told) != number:
        told = [""] * number
    return [text or f"layer {place}" for place, text in enumerate(told, start=1)]


def _blob(archive: Archive, digest: str) -> str:
    return f"blobs/{_checked(archive, digest).replace(':', '/')}"


def _checked(archive: Archive, digest: str) -> str:
    if not DIGEST.fullmatch(digest):
        raise ArgosyError(f"{archive.title}: {digest!r} is not a digest by sha256")
    return digest
