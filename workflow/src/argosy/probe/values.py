"""Values of a site's file, each with its origin."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Value:
    """A key's value, and where it comes from in words."""

    value: Any
    origin: str = ""


Draft = Mapping[str, Any]
"""Keys of a site's file: of a `Value`, or of a mapping of the same."""
