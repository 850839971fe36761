"""Schemas for editors accept what Argosy accepts, and refuse what a misspelt or wrong key would be."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from argosy.schemas import MODELS, schema_of
from argosy.study.models import Config
from argosy.validation import AS_WRITTEN

ROOT = Path(__file__).parents[2]
SCHEMAS = ROOT / "workflow/schemas"
FILES = [
    *(("config", path) for path in sorted(ROOT.glob("config/*.yaml"))),
    *(("site", path) for path in sorted(ROOT.glob("slurm/*/site.yaml"))),
]


def validator(name: str) -> jsonschema.Draft202012Validator:
    """Return a validator by the schema of a kind of file."""
    schema = json.loads((SCHEMAS / f"{name}.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def study(**keys: Any) -> dict[str, Any]:
    """Return a configuration with these keys in its experiment."""
    experiment = {"image": "torch-cpu", "command": "true", "scale": {"nodes": [1]}}
    return {"experiments": {"one": experiment | keys}}


@pytest.mark.parametrize("name", MODELS)
def test_the_schemas_are_those_of_the_models(name: str) -> None:
    text = (SCHEMAS / f"{name}.schema.json").read_text()
    assert text == schema_of(MODELS[name]), "run: make schema"


@pytest.mark.parametrize(
    ("name", "path"), [pytest.param(*each, id=str(each[1].relative_to(ROOT))) for each in FILES]
)
def test_shipped_files_are_valid(name: str, path: Path) -> None:
    content = yaml.safe_load(path.read_text())
    # A template's marks are for its user to fill in.
    wrong = [each for each in validator(name).iter_errors(content) if each.instance != "?"]
    assert wrong == []


@pytest.mark.parametrize(
    "keys",
    [
        {"scale": {"nodes": 2}},
        {"runtime": "native", "image": None},
        {"runtime": ["container", "native"]},
        {"command": ["python3", "train.py"]},
        {"hang_timeout": "off"},
        {"hang_timeout": False},
        {"hang_timeout": "1h30m"},
        {"environment": {"LR": 0.1, "NAME": "x"}},
        {"resources": {"time": "1d12h", "memory_per_rank": "1T", "gpus_per_rank": 0}},
        {"checkpoints": {"warning": "90s", "requeues": 0}},
        {"checkpoints": None},
    ],
    ids=str,
)
def test_every_way_to_write_a_value_is_valid(keys: dict[str, Any]) -> None:
    content = study(**keys)
    Config.model_validate(content, context=AS_WRITTEN)
    validator("config").validate(content)


@pytest.mark.parametrize(
    "keys",
    [
        {"comand": "true"},
        {"scale": {"nodes": [1], "repeat": 3}},
        {"scale": {"nodes": []}},
        {"scale": {"nodes": [0]}},
        {"launcher": ["torch"]},
        {"runtime": "udocker"},
        {"resources": {"time": 30}},
        {"resources": {"time": "30"}},
        {"resources": {"time": ""}},
        {"resources": {"memory_per_rank": "2 GB"}},
        {"resources": {"gpus_per_rank": -1}},
        {"hang_timeout": 90},
    ],
    ids=str,
)
def test_mistakes_are_shown(keys: dict[str, Any]) -> None:
    content = study(**keys)
    with pytest.raises(ValueError):
        Config.model_validate(content, context=AS_WRITTEN)
    assert not validator("config").is_valid(content)


@pytest.mark.parametrize("name", MODELS)
def test_every_key_has_a_description(name: str) -> None:
    schema = json.loads(schema_of(MODELS[name]))
    parts = [schema, *schema["$defs"].values()]
    without = [
        key
        for part in parts
        for key, value in part["properties"].items()
        if "description" not in value
    ]
    assert without == []
