"""The key `outputs` is checked before anything runs."""

from pathlib import Path
from typing import Any

import pytest
from small_studies import runs_of

from argosy.jobs.planning import Project, Target, plan_runs
from argosy.site.models import Site
from argosy_common.errors import ArgosyError


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ([], ()),
        ("checkpoints", ("checkpoints",)),
        (["./runs/a/", "/home/results/"], ("runs/a", "/home/results")),
    ],
)
def test_they_are_normal_paths_of_the_run(written: Any, read: tuple[str, ...]) -> None:
    assert runs_of(image="own", outputs=written)[0].outputs == read


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (["../x"], "write a path below the project"),
        (["a//b"], "write a path below the project"),
        (["/a:b"], "no ':'"),
        ([""], "write a path below the project"),
        (["/"], "write a path below the project"),
        (["/tmp/x"], "/tmp is reserved in each container"),
        (["/job"], "/job is reserved in each container"),
        (["/workloads"], "/workloads is reserved in each container"),
        (["runs", "runs/a"], "runs/a is listed twice, or lies inside another"),
        (["runs", "runs"], "runs is listed twice"),
    ],
)
def test_others_are_refused_in_one_line(written: list[str], said: str) -> None:
    with pytest.raises(ArgosyError) as refused:
        runs_of(image="own", outputs=written)
    assert "experiments.one.outputs" in str(refused.value) and said in str(refused.value)


def test_fixed_paths_need_a_container() -> None:
    with pytest.raises(ArgosyError, match="outputs: /home/x: without a container"):
        runs_of(outputs=["/home/x"], image="own", runtime=["container", "native"])
    assert runs_of(outputs=["x"])[0].outputs == ("x",)


def test_a_path_in_workloads_must_be_in_the_project(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir()
    where, site = Target("local"), Site(scheduler="local", interface="lo")
    assert plan_runs(
        Project(tmp_path), where, runs_of(image="own", outputs=["/workloads/checkpoints"]), {}, site
    )
    with pytest.raises(ArgosyError, match="/workloads/new: the project has no folder new"):
        plan_runs(
            Project(tmp_path), where, runs_of(image="own", outputs=["/workloads/new"]), {}, site
        )
