"""Read and write image.lock: the digest of an image, and its steps."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from argosy_common.errors import ArgosyError
from argosy_common.files import write_json
from argosy_images.oci import DIGEST, ImageConfig, StrictModel, architecture

Digest = Annotated[str, Field(pattern=f"^{DIGEST.pattern}$")]
"""Digest of an image or layer; it becomes a folder's name and part of batch scripts."""
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,254}")
"""Pattern of an image's name, which is a folder's name."""
ImageName = Annotated[str, Field(pattern=f"^{NAME.pattern}$")]


Source = Literal["registry", "archive", "scratch", "file"]
"""Where the image of FROM, or an imported image, comes from."""


class LockedStep(StrictModel):
    """An instruction and the digest of its layer; None if it changed no file."""

    instruction: str
    diff_id: Digest | None


class LockedBase(StrictModel):
    """The image of FROM and its source."""

    reference: str
    source: Source
    diff_id: Digest | Literal[""]
    """Empty for an image without layers."""


class ImageLock(StrictModel):
    """The content of image.lock. The same image gives the same file, byte for byte.

    It has no times, comments and line numbers, so its dependants only rerun if the image changes.
    """

    schema_version: Literal[2] = 2
    name: ImageName
    digest: Digest
    architecture: str
    base: LockedBase
    steps: tuple[LockedStep, ...]
    config: ImageConfig

    @classmethod
    def of(
        cls,
        name: str,
        config: ImageConfig,
        steps: Sequence[tuple[str, str | None]],
        reference: str,
        source: Source,
    ) -> "ImageLock":
        """Return the lock of an image.

        Args:
            steps: instruction and layer digest of each step, the lowest first.
            reference: the image of FROM, or the imported image.
        """
        diff_ids = [diff_id for _, diff_id in steps if diff_id]
        return cls(
            name=name,
            digest=config.digest(diff_ids),
            architecture=architecture(),
            base=LockedBase(reference=reference, source=source, diff_id=next(iter(diff_ids), "")),
            steps=tuple(LockedStep(instruction=text, diff_id=diff_id) for text, diff_id in steps),
            config=config,
        )

    @property
    def diff_ids(self) -> list[str]:
        """Digests of the image's layers, the lowest first."""
        return [step.diff_id for step in self.steps if step.diff_id]

    @property
    def oci_bytes(self) -> bytes:
        """The OCI image configuration, whose digest is the image's."""
        return self.config.oci_bytes(self.diff_ids)

    @staticmethod
    def path_of(project: Path, name: str) -> Path:
        """Return the path of a project's image.lock."""
        return project / "resources" / "images" / name / "image.lock"

    @staticmethod
    def native_dir(project: Path, name: str) -> Path:
        """Return the folder of a project's image for runs without a container."""
        return ImageLock.path_of(project, name).parent / "native"

    @classmethod
    def read(cls, path: Path) -> "ImageLock":
        """Read an image.lock.

        Raises:
            ArgosyError: if it is missing, damaged or from another version of Argosy.
        """
        if not path.is_file():
            raise ArgosyError(f"{path}: the image is not built yet", "run: argosy image build")
        try:
            return cls.model_validate_json(path.read_bytes())
        except ValidationError as problem:
            first = problem.errors()[0]
            key = ".".join(map(str, first["loc"]))
            raise ArgosyError(
                f"{path}: {key}: {first['msg']}", "remove the file and build the image again"
            ) from None

    def write(self, path: Path) -> None:
        """Write this image.lock atomically."""
        write_json(path, self.model_dump(mode="json"))
