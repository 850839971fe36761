"""Validates a configuration; errors name the file, the key and the remedy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from argosy.study.models import Config
from argosy.validation import AS_WRITTEN, errors_of, finding
from argosy_common.errors import ArgosyError

Location = tuple[int | str, ...]


@dataclass(frozen=True)
class Source:
    """A file, or the command line, that holds a part of the configuration."""

    name: str
    values: Any

    def depth(self, location: Location) -> int:
        """Return how many keys of the path `location` it has."""
        here = self.values
        for depth, key in enumerate(location):
            try:
                here = here[key]
            except (LookupError, TypeError):
                return depth
        return len(location)


def parse_config(values: Mapping[str, Any], sources: Sequence[Source]) -> Config:
    """Validate `values`, merged from `sources`; later sources override earlier ones.

    Raises:
        ArgosyError: with one line that names the file, each wrong key, its value and the remedy.
    """
    try:
        return Config.model_validate(values, context=AS_WRITTEN)
    except ValidationError as problem:
        found = [(_source_of(_location(error), sources), error) for error in errors_of(problem)]
        parts = [
            f"{name}: {'; '.join(finding(error, Config) for _, error in group)}"
            for name, group in groupby(found, key=lambda each: each[0])
        ]
        raise ArgosyError("; ".join(parts)) from None


def _location(error: ErrorDetails) -> Location:
    """Return the path of the wrong key; messages about several keys begin with it."""
    if error["loc"]:
        return error["loc"]
    return tuple(error["msg"].removeprefix("Value error, ").partition(":")[0].split("."))


def _source_of(location: Location, sources: Sequence[Source]) -> str:
    """Name the source of a value: the last one with the longest part of its path."""
    if not sources:
        return "the configuration"
    sources = [source for source in sources if source.values] or sources
    keys = tuple(key for key in location if key != "[key]")
    return max(reversed(sources), key=lambda source: source.depth(keys)).name
