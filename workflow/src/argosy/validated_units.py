"""Durations, sizes and counts in files of researchers, as pydantic checks them."""

from typing import Annotated

from pydantic import BeforeValidator, Field

from argosy.units import mebibytes, seconds

Count = Annotated[int, Field(ge=1, strict=True)]
Seconds = Annotated[int, BeforeValidator(seconds), Field(ge=1)]
Mebibytes = Annotated[int, BeforeValidator(mebibytes), Field(ge=1)]
