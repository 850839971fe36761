"""An incoming image's layers and configuration, proved to be what the image names."""

from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from argosy.errors import ArgosyError
from argosy.images.config import ImageConfig
from argosy.images.interchange.incoming import IncomingImage, IncomingLayer
from argosy.images.interchange.opening import Archive
from argosy.images.interchange.streams import DAMAGE, MOST_AFTER_END, Hashing, decompressed, told
from argosy.images.interchange.unpacking import unpack
from argosy.images.rootfs.layers import Change, Layer


def config_of(archive: Archive, image: IncomingImage) -> ImageConfig:
    """Return how the image's programs are started.

    Raises:
        ArgosyError: when its configuration is not one.
    """
    try:
        values = image.config.get("config") or {}
        if isinstance(values.get("Env"), str):
            raise TypeError
        config = ImageConfig.from_oci(values)
        return config.model_copy(update={"author": str(image.config.get("author") or "")})
    except (ValidationError, AttributeError, TypeError, ValueError):
        raise ArgosyError(f"{archive.title}: its configuration is not one of an image") from None


def unpack_layer(
    archive: Archive, layer: IncomingLayer, diff: Path, below: Sequence[Layer]
) -> Change:
    """Unpack one layer into the new folder `diff`, and prove that it is the one that the image names.

    Raises:
        ArgosyError: naming the layer, when it is not, is damaged or holds what must not be unpacked.
    """
    where = f"{archive.title}: {layer.member}"
    try:
        with archive.open(layer.member) as packed:
            outer = Hashing(packed)
            inner = Hashing(decompressed(outer))
            change = unpack(inner, diff, below, where)
            diff_id = inner.drain(MOST_AFTER_END)
            digest = outer.drain()
    except DAMAGE as problem:
        raise ArgosyError(f"{where}: {told(problem)}") from None
    if layer.digest not in (None, digest):
        raise ArgosyError(f"{where}: damaged: its digest is {digest}")
    if diff_id != layer.diff_id:
        raise ArgosyError(
            f"{where}: not the layer {layer.diff_id}: its content is {diff_id}; was it damaged or cut off?"
        )
    return change
