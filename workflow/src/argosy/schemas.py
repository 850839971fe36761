"""Writes JSON Schemas of config.yaml and site.yaml, for editors to complete and check keys.

The format is https://json-schema.org/draft/2020-12. A schema accepts every file that Argosy accepts. It
does not compare several keys.
"""

import ast
import inspect
import json
import sys
import textwrap
from collections.abc import Iterator, Mapping
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema

from argosy.site.models import Site
from argosy.study.models import Config
from argosy.validation import DURATION_SCHEMA, SIZE_SCHEMA
from argosy_common.units import duration

MODELS: Mapping[str, type[BaseModel]] = {"config": Config, "site": Site}


def schema_of(model: type[BaseModel]) -> str:
    """Return the JSON Schema of a user's file, as text."""
    schema = _as_written(model.model_json_schema())
    for part, owner in _models_of(model, schema):
        for key, text in chain(_docstrings(owner.__bases__[0]), _docstrings(owner)):
            part["properties"][owner.model_fields[key].alias or key]["description"] = text
    content = {"$schema": GenerateJsonSchema.schema_dialect, **schema}
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def write_schemas(folder: Path) -> None:
    """Write `<name>.schema.json` of each model into a folder."""
    for name, model in MODELS.items():
        (folder / f"{name}.schema.json").write_text(schema_of(model), encoding="utf-8")


def _models_of(
    model: type[BaseModel], schema: Mapping[str, Any]
) -> Iterator[tuple[Mapping[str, Any], type[BaseModel]]]:
    """Yield each part of a schema that describes a model, with that model."""
    yield schema, model
    names = vars(sys.modules[model.__module__])
    yield from ((part, names[name]) for name, part in schema["$defs"].items())


def _docstrings(model: type[BaseModel]) -> Iterator[tuple[str, str]]:
    """Yield the keys of a model with their docstrings.

    pydantic would collect them at import, which takes 0.1 s in every command.
    """
    [definition] = ast.parse(textwrap.dedent(inspect.getsource(model))).body
    assert isinstance(definition, ast.ClassDef)
    for key, text in pairwise(definition.body):
        if isinstance(key, ast.AnnAssign) and isinstance(text, ast.Expr):
            yield ast.unparse(key.target), " ".join(ast.literal_eval(text.value).split())


def _as_written(schema: Any) -> Any:
    """Return a part of a schema with defaults as users write them, and without titles."""
    if isinstance(schema, list):
        return [_as_written(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    parts = {key: _as_written(value) for key, value in schema.items() if key != "default"}
    if isinstance(parts.get("title"), str):
        del parts["title"]
    default = schema.get("default")
    if isinstance(default, dict | list) or default is None:
        return parts
    return parts | {"default": _written_default(schema, default)}


def _written_default(schema: Mapping[str, Any], default: Any) -> Any:
    """Return a default, with its unit if the file needs one."""
    pattern = schema.get("pattern")
    if pattern == DURATION_SCHEMA["pattern"]:
        return duration(default)
    return f"{default}M" if pattern == SIZE_SCHEMA["pattern"] else default


if __name__ == "__main__":
    write_schemas(Path(sys.argv[1]))
