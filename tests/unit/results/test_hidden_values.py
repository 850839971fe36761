"""Tables and reports contain no secrets."""

import json
from pathlib import Path

import pytest
from study_files import plan

from argosy.report import write_report
from argosy.results import collect
from argosy.results.hidden_values import without_secrets

VALUE = "correct-horse-battery"


@pytest.mark.parametrize(
    "name", ["HF_TOKEN", "token", "DB_PASSWORD", "AWS_SECRET_ACCESS_KEY", "WANDB_API_KEY"]
)
def test_a_secret_stands_in_no_table_and_no_report(tmp_path: Path, name: str) -> None:
    results = tmp_path / "local"
    run = plan(results, environment={name: VALUE, "OMP_NUM_THREADS": "3"})
    run.execute()
    run.steps()
    collect(results, results / "tables")
    write_report(results)
    made = [path for path in results.rglob("*") if path.is_file() and path.parent != run.path]
    assert {path.name for path in made} >= {"runs.parquet", "report.html", "summary.json"}
    assert not [path for path in made if VALUE.encode() in path.read_bytes()]
    summary = json.loads((results / "summary.json").read_text())
    [experiment] = summary["experiments"]
    assert experiment["setup"]["variables"] == {name: "hidden", "OMP_NUM_THREADS": "3"}
    assert name in experiment["setup"]["own_variables"]


@pytest.mark.parametrize("name", ["TOKENIZERS_PARALLELISM", "MAX_TOKENS", "SECRETARY", "PATH"])
def test_other_names_are_no_secrets(name: str) -> None:
    assert without_secrets({name: "x"}) == {name: "x"}


def test_secrets_are_found_at_any_depth() -> None:
    found = without_secrets({"a": [{"b": {"MY_TOKEN": "x", "c": 1}}], "TOKEN": None})
    assert found == {"a": [{"b": {"MY_TOKEN": "hidden", "c": 1}}], "TOKEN": None}


def test_a_password_in_an_address_is_hidden(tmp_path: Path) -> None:
    results = tmp_path / "local"
    run = plan(results, environment={"STORE": f"postgresql://me:{VALUE}@db:5432/a http://b/c@d"})
    run.execute()
    run.steps()
    collect(results, results / "tables")
    write_report(results)
    made = [path for path in results.rglob("*") if path.is_file() and path.parent != run.path]
    assert not [path for path in made if VALUE.encode() in path.read_bytes()]
    found = without_secrets({"a": [f"redis://:{VALUE}@h", "http://h:80/a@b", "a:b@c"]})
    assert found == {"a": ["redis://:hidden@h", "http://h:80/a@b", "a:b@c"]}
