"""A small training on the site itself, which `argosy doctor --train` tries."""

import json
from pathlib import Path
from typing import Any

import pytest
from cluster_workspace import ClusterWorkspace, edit_site
from workspace import BIN

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.slurm,
    pytest.mark.container,
    pytest.mark.timeout(400),
]


@pytest.fixture
def study(workspace: ClusterWorkspace, torch_digest: str) -> ClusterWorkspace:
    """A project whose image torch-cpu is built."""
    status, output = workspace.run(BIN / "argosy", "image", "build", "torch-cpu")
    assert status == 0, output
    return workspace


def examined(study: ClusterWorkspace, *options: str) -> dict[str, dict[str, str]]:
    driver = study.start(BIN / "argosy", "doctor", "testbed", "--train", "--json", *options)
    said = study.end(driver)
    found: list[dict[str, Any]] = json.loads(said[said.index("[\n") :])
    return {each["check"]: each for each in found}


def test_two_ranks_add_up_and_are_warned(study: ClusterWorkspace) -> None:
    found = examined(study)
    assert {each["verdict"] for each in found.values()} == {"ok"}
    assert found["Horovod"]["evidence"].startswith("2 ranks on node1, node2 add up by PyTorch")
    assert found["warning"]["evidence"].startswith("ranks are warned before the time limit")
    assert not Path(study.path / "results/testbed/trial").exists()
    # Again, as another job: what the first left is not taken for its answer.
    first = (study.path / "logs/doctor/testbed/trial/nodes2-ranks1-repeat1/job.json").read_text()
    edit_site(study, environment={"PATH": "/nowhere"})
    found = examined(study)
    assert found["Horovod"]["verdict"] == "wrong"
    assert "logs/doctor/testbed/trial" in found["Horovod"]["remedy"]
    second = (study.path / "logs/doctor/testbed/trial/nodes2-ranks1-repeat1/job.json").read_text()
    assert json.loads(first)["jobs"][0]["job_id"] != json.loads(second)["jobs"][0]["job_id"]


def test_a_site_whose_jobs_get_no_signal(study: ClusterWorkspace) -> None:
    edit_site(study, unsupported_options={"signal": "this site rejects it"})
    found = examined(study)
    assert found["Horovod"]["verdict"] == "ok"
    assert found["warning"]["verdict"] == "warning"
    assert "no warning reached the ranks within the 120 s" in found["warning"]["evidence"]


def test_without_an_image_it_is_not_known(workspace: ClusterWorkspace) -> None:
    found = examined(workspace)
    assert found["Horovod"]["verdict"] == "unknown"
    assert "argosy image build torch-cpu" in found["Horovod"]["evidence"]
