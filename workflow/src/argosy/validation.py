"""Types for values in users' files, and one-line messages for findings: file, key, value, remedy."""

import difflib
import re
import reprlib
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    RootModel,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
)
from pydantic_core import ErrorDetails

from argosy_common.errors import ArgosyError
from argosy_common.units import DURATION, SIZE, mebibytes, seconds

AS_WRITTEN = {"as_written": True}
"""The pydantic context for users' files: each duration and size needs its unit.

Some programs take `90` as minutes and others as seconds, and YAML reads `1:30` as ninety.
"""


def written_seconds(value: Any, info: ValidationInfo) -> Any:
    """Convert a duration to seconds; refuse a number without a unit in a user's file."""
    if _has_no_unit(value, info):
        raise ValueError("write a duration with its unit: 90s, 30m, 2h or 1d12h")
    return seconds(value)


def written_mebibytes(value: Any, info: ValidationInfo) -> Any:
    """Convert a size to MiB; refuse a number without a unit in a user's file."""
    if _has_no_unit(value, info):
        raise ValueError("write a size with its unit: 512M, 16G or 1T")
    return mebibytes(value)


def _has_no_unit(value: Any, info: ValidationInfo) -> bool:
    return isinstance(value, int | float) and info.context == AS_WRITTEN


def from_text(value: object) -> object:
    """Convert a text to an integer or boolean if it is one.

    Snakemake passes nested values of `--config` as text.
    """
    if not isinstance(value, str):
        return value
    text = value.strip()
    return int(text) if text.isdecimal() and text.isascii() else _TRUTH.get(text, value)


_TRUTH = {"true": True, "false": False}

DURATION_SCHEMA = {
    "type": "string",
    "pattern": f"^(?=.){DURATION.pattern}$",
    "description": "A duration with its unit, such as 90s, 30m, 2h or 1d12h.",
}
SIZE_SCHEMA = {
    "type": "string",
    "pattern": f"^{SIZE.pattern}$",
    "description": "A size with its unit, such as 512M, 16G or 1T.",
}
COUNT_SCHEMA = {"type": "integer", "minimum": 1, "maximum": 1 << 20}


def one_or_several(item: dict[str, Any]) -> WithJsonSchema:
    """Return the JSON Schema of a list or a single item.

    Args:
        item: the JSON Schema of an item.
    """
    return WithJsonSchema({"anyOf": [item, {"type": "array", "items": item, "minItems": 1}]})


Count = Annotated[
    int,
    BeforeValidator(from_text),
    Field(ge=1, le=1 << 20, strict=True),
    WithJsonSchema(COUNT_SCHEMA),
]
Natural = Annotated[
    int,
    BeforeValidator(from_text),
    Field(ge=0, strict=True),
    WithJsonSchema({"type": "integer", "minimum": 0}),
]
Seconds = Annotated[
    int, BeforeValidator(written_seconds), Field(ge=1), WithJsonSchema(DURATION_SCHEMA)
]
Mebibytes = Annotated[
    int, BeforeValidator(written_mebibytes), Field(ge=1), WithJsonSchema(SIZE_SCHEMA)
]


NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def printable(value: str) -> str:
    """Refuse line breaks and other control characters."""
    if not value.isprintable():
        raise ValueError("contains characters that cannot be printed")
    return value


Value = Annotated[
    str,
    Field(coerce_numbers_to_str=True),
    AfterValidator(printable),
    WithJsonSchema({"type": ["string", "number"]}),
]


IF_SET: Any = Field(exclude_if=lambda value: value is None or value is False or value == {})
"""Leaves an unset optional field out of the JSON, so that a new field does not change earlier runs."""

AnyModel = TypeVar("AnyModel", bound=BaseModel)


class Model(BaseModel):
    """Immutable, and strict about unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)


_LONGEST_VALUE = 200
_WORDS = {
    **dict.fromkeys(("dict_type", "model_type"), "write a map: {{KEY: VALUE}}"),
    **dict.fromkeys(("list_type", "tuple_type"), "write a list: [VALUE]"),
    "string_type": "write a text",
    "too_short": "needs {min_length} or more",
    "too_long": "takes {max_length} or fewer",
}
"""Replacements for pydantic's messages about Python types."""
RENAMED = {"needs": "resources", "forbidden": "unsupported_options", "room": "cache_size"}
"""New names of keys by their former names."""


def validated(content: Any, source: Path, model: type[AnyModel]) -> AnyModel:
    """Validate the content of a user's file; raises ArgosyError with one line for all findings."""
    try:
        return model.model_validate(content, context=AS_WRITTEN)
    except ValidationError as problem:
        raise ArgosyError(describe(problem, source, model)) from None


def describe(problem: ValidationError, source: Path, model: type[BaseModel]) -> str:
    """Return one line for all findings, such as `config.yaml: experiments.a.scale.nodes.0: …`."""
    return f"{source}: " + "; ".join(finding(error, model) for error in errors_of(problem))


def errors_of(problem: ValidationError) -> list[ErrorDetails]:
    """Return the findings without lists that are too short only because items were refused."""
    errors = problem.errors()
    return [
        error
        for error in errors
        if error["type"] != "too_short"
        or not any(
            each["loc"][: len(error["loc"])] == error["loc"] for each in errors if each is not error
        )
    ]


def finding(error: ErrorDetails, model: type[BaseModel]) -> str:
    """Return one finding as `key: what is wrong`, with a hint where the key is unknown."""
    key = ".".join(str(part) for part in error["loc"] if part != "[key]")
    message = _WORDS.get(error["type"], "").format_map(error.get("ctx", {}))
    message = message or error["msg"].removeprefix("Value error, ")
    if not key:
        return "is empty" if error["input"] is None else message
    if error["type"] == "missing":
        return f"{key}: this key is missing"
    if error["type"] == "extra_forbidden" and error["loc"][-1] in RENAMED:
        return f"{key}: this key is called {RENAMED[str(error['loc'][-1])]} now"
    if error["type"] == "extra_forbidden":
        return f"{key}: no such key; {_hint(error['loc'], model)}"
    if error["type"] == "string_type" and isinstance(error["input"], bool):
        message = "write it in quotes: YAML reads it as true or false"
    text = f"{key}: {message[:1].lower()}{message[1:]}"
    # A message about several keys names them itself.
    is_of_several = error["type"] == "value_error" and isinstance(error["input"], Mapping)
    return text if is_of_several else f"{text} (it is {_short_value(error['input'])})"


def _short_value(value: object) -> str:
    """Return the value, shortened to fit in a line."""
    shortened = reprlib.Repr()
    shortened.maxstring = shortened.maxother = shortened.maxlong = _LONGEST_VALUE
    return shortened.repr(value)


def _hint(location: tuple[int | str, ...], model: type[BaseModel]) -> str:
    known = _keys_at(location[:-1], model)
    close = difflib.get_close_matches(str(location[-1]), known, n=1)
    return f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}"


def _keys_at(location: tuple[int | str, ...], annotation: Any) -> list[str]:
    """Return the keys known at `location` below the annotation's models and mappings."""
    annotation = _without_annotations(annotation)
    if get_origin(annotation) in (dict, Mapping):
        return _keys_at(location[1:], get_args(annotation)[1])
    if get_origin(annotation) is tuple:
        return _keys_at(location[1:], get_args(annotation)[0])
    fields = annotation.model_fields
    if issubclass(annotation, RootModel):
        return _keys_at(location, fields["root"].annotation)
    if not location:
        return [each.alias or name for name, each in fields.items()]
    return _keys_at(location[1:], fields[location[0]].annotation)


def _without_annotations(annotation: Any) -> Any:
    """Return the annotation without its metadata and without None."""
    while True:
        if get_origin(annotation) is Annotated:
            annotation = get_args(annotation)[0]
        elif get_origin(annotation) in (Union, types.UnionType):
            annotation = next(each for each in get_args(annotation) if each is not type(None))
        else:
            return annotation
