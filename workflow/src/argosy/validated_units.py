"""Durations, sizes and counts in files of researchers, as pydantic checks them."""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationInfo

from argosy.units import mebibytes, seconds

AS_WRITTEN = {"as_written": True}
"""The context in which pydantic validates what a person wrote: each duration and size needs its unit.

Some programs read `90` as minutes and others as seconds, and YAML reads `1:30` as ninety.
"""


def written_seconds(value: Any, info: ValidationInfo) -> Any:
    """Return `seconds`; refuse a number without a unit in what a person wrote."""
    if _has_no_unit(value, info):
        raise ValueError("write a duration with its unit: 90s, 30m, 2h or 1d12h")
    return seconds(value)


def written_mebibytes(value: Any, info: ValidationInfo) -> Any:
    """Return `mebibytes`; refuse a number without a unit in what a person wrote."""
    if _has_no_unit(value, info):
        raise ValueError("write a size with its unit: 512M, 16G or 1T")
    return mebibytes(value)


def _has_no_unit(value: Any, info: ValidationInfo) -> bool:
    return isinstance(value, int | float) and info.context == AS_WRITTEN


def from_text(value: object) -> object:
    """Return the number or truth value that a text is.

    Snakemake hands nested values of `--config` on as text.
    """
    if not isinstance(value, str):
        return value
    text = value.strip()
    return int(text) if text.isdecimal() and text.isascii() else _TRUTH.get(text, value)


_TRUTH = {"true": True, "false": False}

Count = Annotated[int, BeforeValidator(from_text), Field(ge=1, le=1 << 20, strict=True)]
Seconds = Annotated[int, BeforeValidator(written_seconds), Field(ge=1)]
Mebibytes = Annotated[int, BeforeValidator(written_mebibytes), Field(ge=1)]
