"""Reads a configuration and says what is wrong with it in the researcher's words."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from argosy.errors import ArgosyError
from argosy.study.models import Config
from argosy.validation import describe


def parse_config(values: Mapping[str, Any], source: Path) -> Config:
    """Validate `values`, read from `source`.

    Raises:
        ArgosyError: with one line that names the file, each wrong key, its value and the remedy.
    """
    try:
        return Config.model_validate(values)
    except ValidationError as problem:
        raise ArgosyError(describe(problem, source, Config)) from None


def read_config(text: str, source: Path) -> Config:
    """The same of JSON.

    Raises:
        ArgosyError: as `parse_config`, or when it is no JSON.
    """
    try:
        values = json.loads(text)
    except ValueError as problem:
        raise ArgosyError(f"{source}: not JSON: {problem}") from None
    return parse_config(values, source)
