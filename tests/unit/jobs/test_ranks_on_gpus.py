"""`ranks_per_node: gpu`, and CPUs of ranks, as runs are planned from them."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from small_studies import configured, project_with

from argosy.jobs.planning import Project, Target, plan_runs, runs_of, write_runs
from argosy.site.models import read_site
from argosy.study.models import Config
from argosy_common.errors import ArgosyError

HARDWARE = {
    "cpu": {"architecture": "x86_64", "cores": 128},
    "small": {"architecture": "x86_64", "cores": 32, "gpus": 4},
    "large": {"architecture": "x86_64", "cores": 64, "gpus": 8},
}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = project_with(tmp_path, "mycluster", "local")
    path = tmp_path / "slurm/mycluster/site.yaml"
    content = yaml.safe_load(path.read_text())
    queue = {"options": {"partition": "any"}}
    queues = {"any": {"hardware": [*HARDWARE], **queue}, "cpus": {"hardware": ["cpu"], **queue}}
    new = {"account": "a1", "interface": "ib0", "hardware": HARDWARE, "queues": queues}
    path.write_text(yaml.safe_dump({**content, **new}, sort_keys=False))
    return project


def study(ranks: Any, site: str = "mycluster", resources: Any = None, **top: Any) -> Config:
    scale = {"nodes": [1, 2], "ranks_per_node": ranks, "repeats": 1}
    return configured("study", {"site": site, **top}, scale=scale, resources=resources or {})


def planned(project: Project, asked: Config) -> list[tuple[str, str | None, int]]:
    facts = read_site(project.slurm_dir / asked.site)
    target = Target(asked.site, asked.hardware, asked.queue)
    plans = plan_runs(project, target, runs_of(asked, facts), {}, facts)
    return [
        (each.run.run_id, each.placement.hardware_name, each.run.resources.gpus_per_rank)
        for each in plans
    ]


@pytest.mark.parametrize(
    ("ranks", "top", "expected"),
    [
        ("gpu", {}, ["nodes1-ranks4-repeat1 small", "nodes2-ranks4-repeat1 small"]),
        (
            [1, "gpu"],
            {"hardware": "large"},
            [
                f"nodes{nodes} large"
                for nodes in ("1-ranks1-repeat1", "1-ranks8-repeat1", "2-ranks8-repeat1")
            ],
        ),
        # The same size once.
        (["gpu", 4], {}, ["nodes1-ranks4-repeat1 small", "nodes2-ranks4-repeat1 small"]),
    ],
)
def test_a_rank_on_each_gpu(project: Project, ranks: Any, top: Any, expected: list[str]) -> None:
    found = planned(project, study(ranks, **top))
    assert [f"{run_id} {kind}" for run_id, kind, _ in found] == expected
    assert {gpus for *_, gpus in found} == {1}


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (
            {"site": "local"},
            "study.scale.ranks_per_node: gpu: slurm/local/site.yaml names no GPUs in hardware",
        ),
        ({"hardware": "cpu"}, "slurm/mycluster/site.yaml names no GPUs in hardware.cpu"),
        ({"queue": "cpus"}, "names no GPUs in hardware of the queue cpus"),
        ({"hardware": "gpus"}, "slurm/mycluster/site.yaml: hardware: the site has no gpus"),
        (
            {"resources": {"cpus_per_rank": 9}},
            "hardware.small does not fit a rank on each GPU: 32 cores per node, 36 needed",
        ),
        ({"resources": {"gpus_per_rank": 2}}, "resources.gpus_per_rank: 2 contradicts"),
        ({"ranks": ["gpu", "gpu"]}, "the same count is listed twice"),
        ({"ranks": "gpus"}, "scale.ranks_per_node.0: write a whole number from 1 on, or gpu"),
        ({"ranks": True}, "scale.ranks_per_node.0: write a whole number from 1 on, or gpu"),
    ],
)
def test_mistakes_are_one_line(project: Project, asked: Any, words: str) -> None:
    with pytest.raises(ArgosyError) as found:
        planned(project, study(**{"ranks": "gpu", **asked}))
    assert words in str(found.value) and "\n" not in found.value.problem


@pytest.mark.parametrize(
    ("resources", "environment", "bind", "threads"),
    [
        ({"cpus_per_rank": 3}, {}, None, "3"),
        ({"cpus_per_rank": 3, "bind": "none"}, {}, None, "3"),
        ({"cpus_per_rank": 3, "bind": "numa"}, {}, ("numa", 3), None),
        ({"cpus_per_rank": 3, "bind": "core"}, {"OMP_NUM_THREADS": "2"}, ("core", 3), "2"),
    ],
)
def test_agents_are_told_of_cores(
    project: Project, resources: Any, environment: Any, bind: Any, threads: str | None
) -> None:
    asked = study(1, site="local", resources=resources)
    facts = read_site(project.slurm_dir / "local")
    runs = [each.model_copy(update={"environment": environment}) for each in runs_of(asked, facts)]
    script, _ = write_runs(project, plan_runs(project, Target("local"), runs, {}, facts))
    run = json.loads((script.parent / "run.json").read_text())
    assert run["rank_environment"].get("OMP_NUM_THREADS") == (threads and str(threads))
    assert ((run["bind"], run["cpus_per_rank"]) if "bind" in run else None) == bind
    told = json.loads((script.parent / "provenance.json").read_text())["experiment"]["resources"]
    assert told.get("bind") == (bind and bind[0])


def test_a_launcher_whose_program_starts_the_ranks_does_not_bind_them(project: Project) -> None:
    asked = study(2, site="local", resources={"bind": "core"})
    facts = read_site(project.slurm_dir / "local")
    runs = [each.model_copy(update={"launcher": "per-node"}) for each in runs_of(asked, facts)]
    with pytest.raises(
        ArgosyError, match=r"study\.resources\.bind: per-node does not start each rank"
    ):
        plan_runs(project, Target("local"), runs, {}, facts)
