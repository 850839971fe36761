"""A bundle is a Provenance Run Crate, according to the validator of the RO-Crate community."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from bundled_studies import RUN, SITE, bundled, contents, make_project

VALIDATOR = Path(__file__).parent / "programs/validate_crate.py"
NOT_KNOWN = (
    # A study records a login, not a person.
    "The Action SHOULD have an agent",
    "Contextual Entity representing the `author`",
    "The `publisher` property",
    # Programs of a study have no URL.
    "The SoftwareApplication id SHOULD be an absolute URI",
    "The Application SHOULD have a url",
)


def validated(bundle: Path) -> list[str]:
    """Return the validator's findings: all required ones, and recommended ones that Argosy can fulfil."""
    packages = Path(sys.executable).parent.parent / "crates"
    environment = {**os.environ, "PYTHONPATH": str(packages)}
    command = [sys.executable, VALIDATOR, bundle]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1:] in (["passed"], ["recommended"]), done.stderr
    return [
        line
        for line in done.stdout.splitlines()[:-1]
        if line.startswith("REQUIRED") or not any(text in line for text in NOT_KNOWN)
    ]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("crate")
    return bundled(make_project(top / "study"), top / "study.zip")


def entities(bundle: Path) -> dict[str, Any]:
    crate = json.loads(contents(bundle)["ro-crate-metadata.json"])
    return {entity["@id"]: entity for entity in crate["@graph"]}


@pytest.mark.slow
def test_it_is_valid(bundle: Path) -> None:
    assert validated(bundle) == []


@pytest.mark.slow
def test_the_validator_finds_what_is_wrong(bundle: Path, tmp_path: Path) -> None:
    files = contents(bundle)
    broken = tmp_path / "broken.zip"
    with zipfile.ZipFile(broken, "w") as archive:
        for name, content in files.items():
            text = content.replace(b'"HowTo"', b'"HowToStep"') if "ro-crate" in name else content
            archive.writestr(name, text)
    assert [line for line in validated(broken) if line.startswith("REQUIRED")]


def test_a_study_of_which_nothing_has_ended_is_valid_as_far_as_it_goes(tmp_path: Path) -> None:
    project = make_project(tmp_path / "study")
    shutil.rmtree(project / "results")
    crate = entities(bundled(project, tmp_path / "study.zip"))
    assert crate["./"]["name"] == "A study at no site yet"


def test_what_ran_what_it_used_and_how_it_ended(bundle: Path) -> None:
    crate = entities(bundle)
    done = crate[f"#run/{RUN.removeprefix('results/')}/100.0"]
    assert done["actionStatus"] == "http://schema.org/CompletedActionStatus"
    used = {crate[each["@id"]]["name"]: crate[each["@id"]] for each in done["resourceUsage"]}
    assert used["node-hours"]["value"] == pytest.approx(60 / 3600)
    # 100 W of the processors and 300 W of the GPU, for ten seconds.
    assert used["energy of processors"]["value"] == pytest.approx(1000)
    assert used["energy of GPUs"]["value"] == pytest.approx(3000)
    assert {each["unitCode"] for each in used.values()} == {"HUR", "JOU"}
    assert crate[done["containerImage"]["@id"]]["sha256"] == "ab" * 32
    failed = crate[f"#run/{SITE}/digits/nodes4-ranks1-repeat1/100.0"]
    assert failed["actionStatus"] == "http://schema.org/FailedActionStatus"
    assert failed["error"].startswith("rank 0 (node 0, host0): exit code 1")


def test_its_licence(bundle: Path, tmp_path: Path) -> None:
    assert entities(bundle)["./"]["license"] == {"@id": "#license"}
    project = make_project(tmp_path / "study")
    address = "https://spdx.org/licenses/CC-BY-4.0"
    crate = entities(bundled(project, tmp_path / "study.zip", license=address))
    assert crate["./"]["license"] == {"@id": address}


def test_what_was_left_behind_is_not_described(tmp_path: Path) -> None:
    project = make_project(tmp_path / "study")
    left = f"/results/{SITE}/digits/nodes2-ranks1-repeat*/"
    described = entities(bundled(project, tmp_path / "study.zip", excluded=(left,)))
    assert f"{RUN}/" in described
    assert not [each for each in described if "nodes2" in each]


def test_nothing_is_of_a_configuration_that_was_left_behind(tmp_path: Path) -> None:
    project = make_project(tmp_path / "study")
    file = "config/config.yaml"
    described = entities(bundled(project, tmp_path / "study.zip", excluded=(f"/{file}",)))
    assert [key for key, each in described.items() if {"@id": file} == each.get("object")] == []
    assert file not in described
