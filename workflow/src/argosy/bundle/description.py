"""What a bundle says of itself: `argosy-bundle.json`, and the checksums of all its files."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from argosy.errors import ArgosyError
from argosy.images import Digest, ImageName
from argosy.validation import describe

DESCRIPTION = "argosy-bundle.json"
CHECKSUMS = "manifest-sha256.txt"
"""As sha256sum writes it, so that `sha256sum --check` checks an unpacked bundle."""
CRATE = "ro-crate-metadata.json"
BUNDLE_VERSION: Literal[1] = 1

_LINE = re.compile(r"([0-9a-f]{64})  (.+)")


class BundleModel(BaseModel):
    """Immutable, and strict about unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class BundledImage(BundleModel):
    """An image of the study.

    Args:
        name: in the project.
        digest: of the frozen image, `sha256:…`.
        archive: the OCI archive in the bundle; None where only the digest was bundled.
    """

    name: ImageName
    digest: Digest
    archive: str | None


class BundleDescription(BundleModel):
    """The content of argosy-bundle.json.

    Args:
        argosy: the version that wrote the bundle.
        created: when, in ISO 8601.
        sites: whose results are in it.
        inputs: the digest of the study's inputs on each of them.
        images: of the project.
        executable: the files that their owner may execute.
    """

    schema_version: Literal[1] = BUNDLE_VERSION
    argosy: str
    created: str
    sites: tuple[str, ...]
    inputs: dict[str, str | None]
    images: tuple[BundledImage, ...]
    executable: tuple[str, ...]

    @model_validator(mode="before")
    @classmethod
    def _without_former_key(cls, found: Any) -> Any:
        """Leave out what older bundles say besides."""
        if isinstance(found, dict):
            found.pop("redacted", None)
        return found


def checksum_lines(digests: Mapping[str, str]) -> str:
    """Return the content of the file of checksums, from SHA-256 by names."""
    return "".join(f"{digest}  {name}\n" for name, digest in sorted(digests.items()))


def read_checksums(bundle: str, content: bytes) -> dict[str, str]:
    """Return SHA-256 by names; raises ArgosyError for any other content.

    Args:
        bundle: what messages begin with.
        content: of the file.
    """
    digests: dict[str, str] = {}
    for line in content.decode("utf-8", "backslashreplace").splitlines():
        found = _LINE.fullmatch(line)
        if not found or found[2] in digests:
            raise ArgosyError(f"{bundle}: {CHECKSUMS}: not a line of checksums: {line[:80]!r}")
        digests[found[2]] = found[1]
    return digests


def read_description(bundle: str, text: bytes) -> BundleDescription:
    """Return the description; raises ArgosyError for one that is damaged or of another version."""
    try:
        return BundleDescription.model_validate_json(text)
    except ValidationError as problem:
        said = describe(problem, Path(bundle, DESCRIPTION), BundleDescription)
        raise ArgosyError(said, "use the version of Argosy that wrote the bundle") from None
