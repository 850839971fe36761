"""Find the blobs of an image in a registry."""

import hashlib
import json
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationError

from argosy_common.errors import ArgosyError, some
from argosy_images.oci import (
    CONFIG_TYPES,
    INDEX_TYPE,
    MANIFEST_TYPE,
    Platform,
    architecture,
    not_a_tar,
    preferred,
)
from argosy_images.registry.client import Client, Document
from argosy_images.registry.reference import Reference

DOCKER_MANIFEST_TYPE = "application/vnd.docker.distribution.manifest.v2+json"
DOCKER_LIST_TYPE = "application/vnd.docker.distribution.manifest.list.v2+json"
KINDS = (MANIFEST_TYPE, INDEX_TYPE, DOCKER_MANIFEST_TYPE, DOCKER_LIST_TYPE)

LARGEST_CONFIG = 16 << 20
MOST_NESTED = 4

Digest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]


class Descriptor(BaseModel):
    """A blob or manifest: digest, size in bytes, and type."""

    media_type: str = Field("", alias="mediaType")
    digest: Digest
    size: int = Field(ge=0)
    platform: dict[str, Any] | None = None
    artifact_type: str | None = Field(None, alias="artifactType")


class _Manifest(BaseModel):
    config: Descriptor
    layers: list[Descriptor]


class _Index(BaseModel):
    manifests: list[Descriptor]


@dataclass(frozen=True)
class Contents:
    """The content of an image in a registry.

    Args:
        reference: with the digest of its tag, which may be of an index.
        manifest: the image's own manifest, of media type `kind`.
        blobs: its configuration and layers, without duplicates.
    """

    reference: Reference
    manifest: bytes
    kind: str
    blobs: tuple[Descriptor, ...]


def read_contents(client: Client) -> Contents:
    """Fetch the image's manifest; from an index, choose this machine's platform.

    Raises:
        ArgosyError: if it is missing, has another digest, or is no image for this machine.
    """
    reference = client.reference
    digest, wanted, pinned = reference.digest, reference.wanted, client.named
    for depth in range(MOST_NESTED):
        document = client.manifest(wanted, KINDS)
        found = _checked(reference, document, digest)
        pinned = pinned if depth else client.named.pinned(found)
        content = _read_document(reference, document)
        if "manifests" not in content:
            manifest = _image(reference, content)
            blobs = {one.digest: one for one in (manifest.config, *manifest.layers)}
            kind = content.get("mediaType") or document.kind
            return Contents(
                reference=pinned,
                manifest=document.content,
                kind=kind if kind in KINDS else MANIFEST_TYPE,
                blobs=tuple(blobs.values()),
            )
        wanted = digest = _for_this_machine(reference, content)
    raise ArgosyError(f"{reference}: nested image indexes (limit reached)")


def _checked(reference: Reference, document: Document, digest: str | None) -> str:
    """Return the digest of a document; compare it with the requested digest and the registry's header."""
    found = f"sha256:{hashlib.sha256(document.content).hexdigest()}"
    told = document.digest if document.digest and document.digest.startswith("sha256:") else None
    for expected in (digest, told):
        if expected not in (None, found):
            raise ArgosyError(
                f"{reference}: received {found} instead of {expected}: the registry or a proxy "
                "sent wrong data"
            )
    return found


def _read_document(reference: Reference, document: Document) -> dict[str, object]:
    try:
        content = json.loads(document.content)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise ArgosyError(
            f"{reference}: {reference.host} does not answer with a manifest; check that it is a registry"
        )
    if content.get("schemaVersion") == 1 or "fsLayers" in content:
        raise ArgosyError(
            f"{reference}: stored in an obsolete format (schema 1)",
            "ask its owner to push it again",
        )
    return content


def _image(reference: Reference, content: dict[str, object]) -> _Manifest:
    try:
        manifest = _Manifest.model_validate(content)
    except ValidationError as problem:
        raise _no_manifest(reference, problem) from None
    kind = manifest.config.media_type
    if kind not in CONFIG_TYPES:
        raise ArgosyError(f"{reference}: not a container image, but {kind}")
    if unread := not_a_tar(layer.media_type for layer in manifest.layers):
        raise ArgosyError(f"{reference}: a layer of type {unread} cannot be unpacked")
    if manifest.config.size > LARGEST_CONFIG:
        raise ArgosyError(
            f"{reference}: its configuration is longer than {LARGEST_CONFIG >> 20} MiB"
        )
    return manifest


def _for_this_machine(reference: Reference, content: dict[str, object]) -> str:
    try:
        index = _Index.model_validate(content)
    except ValidationError as problem:
        raise _no_manifest(reference, problem) from None
    images = [one for one in index.manifests if not one.artifact_type]
    platforms = [Platform.described(one.platform) if one.platform else None for one in images]
    if places := preferred(platforms):
        return images[places[0]].digest
    kinds = sorted({str(one) for one in platforms if one and one.os != "unknown"})
    hint = f"available for: {some(kinds) or 'nothing'}"
    newer = [images[place].digest for place, one in enumerate(platforms) if one and one.is_own]
    if newer:
        named = f"{reference.host}/{reference.repository}@{newer[0]}"
        hint += f"; if all nodes can run a variant, name it by its digest: {named}"
    every = "every " if newer else ""
    raise ArgosyError(f"{reference}: not available for {every}linux/{architecture()}", hint)


def _no_manifest(reference: Reference, problem: ValidationError) -> ArgosyError:
    first = problem.errors()[0]
    return ArgosyError(
        f"{reference}: not an image manifest: {'.'.join(map(str, first['loc']))}: {first['msg']}"
    )
