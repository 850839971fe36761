"""Runs that share a job: which do, what the job asks for, and who is refused."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from argosy.jobs.planning import Project, Target, plan_runs, write_runs
from argosy.run_folder.folder import allocation_folder
from argosy.schedulers.slurm.options import ScriptOptions
from argosy.schedulers.slurm.shared_jobs import runs_of, script_text, split_shared, write_script
from argosy.study.config import parse_config
from argosy.study.runs import Run, expand
from argosy_common.errors import ArgosyError

SLURM = Path(__file__).parents[3] / "slurm"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    path = tmp_path / "a project; with $(odd) 'name' 100%"
    for folder in ("templates", "local", "testbed", "vista"):
        shutil.copytree(SLURM / folder, path / "slurm" / folder)
    return Project(path)


def runs(nodes: tuple[int, ...] = (1, 2, 4), **more: Any) -> list[Run]:
    experiment = {
        "runtime": "native",
        "command": "true",
        "scale": {"nodes": nodes, "repeats": 2},
        "resources": {"time": "10m", "same_allocation": True},
        **more,
    }
    study = {"stalls": {"study": {"synthetic": "--synthetic"}}}
    return expand(parse_config({"experiments": {"study": experiment}, "studies": study}, []))


def planned(project: Project, asked: list[Run], site: str = "testbed") -> list[Path]:
    plans = plan_runs(project, Target(site), asked, {})
    return [script.parent for script in write_runs(project, plans)]


def test_runs_of_a_repeat_share_with_what_they_are_compared_with(project: Project) -> None:
    alone, shared = split_shared(planned(project, runs()))
    assert alone == []
    site = project.path / "results" / "testbed"
    assert sorted(shared) == [site / f"study/allocation-repeat{each}" for each in (1, 2)]
    for repeat, folder in enumerate(sorted(shared), start=1):
        names = sorted("/".join(run.parts[-2:]) for run in shared[folder])
        assert names == sorted(
            f"{experiment}/nodes{nodes}-ranks1-repeat{repeat}"
            for experiment in ("study", "study-synthetic")
            for nodes in (1, 2, 4)
        )


def test_the_job_has_the_nodes_of_its_largest_run_and_the_time_of_all(project: Project) -> None:
    _, shared = split_shared(planned(project, runs()))
    folder, members = min(shared.items())
    before = {member: (member / "job.sbatch").read_text() for member in members}
    write_script(folder, members)
    options = ScriptOptions(folder).values
    assert (options["nodes"], options["time"]) == ("4", "66")
    assert options["chdir"] == str(folder)
    assert options["job-name"] == "argosy-study-allocation-repeat1"
    assert options["output"] == f"{str(folder).replace('%', '%%')}/logs/scheduler-%j.log"
    # Its own copy says what it holds, in the order in which they are measured.
    assert list(runs_of(script_text(folder, members))) == members
    assert list(runs_of(script_text(folder, members[:1]))) == members[:1]
    assert {member: (member / "job.sbatch").read_text() for member in members} == before
    small = script_text(folder, [each for each in members if "nodes1-" in each.name])
    assert "#SBATCH --nodes=1\n" in small
    assert "#SBATCH --time=22\n" in small


def test_all_go_to_a_queue_that_takes_them_together(project: Project) -> None:
    path = project.slurm_dir / "testbed" / "site.yaml"
    site = yaml.safe_load(path.read_text())
    short = {**site["queues"]["main"], "limits": [{"nodes": 1, "time": "1h"}]}
    site["queues"] = {"short": short, **site["queues"]}
    path.write_text(yaml.safe_dump(site, sort_keys=False))
    queues = {
        json.loads((folder / "run.json").read_text())["queue"]
        for folder in planned(project, runs())
    }
    assert queues == {"main"}
    site["queues"]["main"]["limits"] = [{"nodes": 4, "time": "1h"}]
    path.write_text(yaml.safe_dump(site, sort_keys=False))
    with pytest.raises(ArgosyError) as refused:
        planned(project, runs())
    assert refused.value.hint.startswith("change scale.nodes or resources.time of the experiment")
    assert refused.value.problem == (
        "slurm/testbed/site.yaml: no queue accepts 4 nodes for 1h6m on cpu: short: at most 1 node; "
        "main: at "
        "most 1h with 4 nodes (study/nodes1-ranks1-repeat1, in one job with all of repeat 1: "
        "resources.same_allocation)"
    )


def test_a_site_whose_jobs_hold_one_run_says_so(project: Project) -> None:
    path = project.slurm_dir / "vista" / "site.yaml"
    path.write_text(path.read_text() + "\ninterface: ib0\n")
    with pytest.raises(ArgosyError) as refused:
        planned(project, runs(), "vista")
    assert str(refused.value) == (
        "slurm/vista/site.yaml: same_allocation: false: a job of this site can contain only one "
        "run; remove experiments.study.resources.same_allocation"
    )


def test_on_this_machine_runs_are_on_the_same_node_anyway(project: Project) -> None:
    folders = planned(project, runs(), "local")
    assert split_shared(folders) == (folders, {})
    assert "allocation" not in json.loads((folders[0] / "run.json").read_text())


def test_what_does_not_ask_for_it_is_as_it_was(project: Project) -> None:
    folders = planned(project, runs(resources={"time": "10m"}))
    assert split_shared(folders) == (folders, {})
    said = json.loads((folders[0] / "provenance.json").read_text())
    assert "same_allocation" not in said["experiment"]["resources"]
    assert "ARGOSY_ALLOCATION" not in (folders[0] / "job.sbatch").read_text()


def test_checkpoints_are_for_runs_that_go_on_in_another_job() -> None:
    with pytest.raises(ArgosyError, match=r"resources\.same_allocation measures runs"):
        runs(checkpoints={})


@pytest.mark.parametrize(
    "named",
    [None, "", "study", "study/", "/etc", "../x", "study/..", "./x", "study/allocation/x"],
)
def test_no_other_folder_is_taken_for_that_of_a_job(tmp_path: Path, named: str | None) -> None:
    assert allocation_folder(tmp_path, named) is None


def test_the_folder_of_a_job_is_below_that_of_the_site(tmp_path: Path) -> None:
    named = {"allocation": "study/allocation-repeat1"}
    assert (
        allocation_folder(tmp_path, named["allocation"])
        == tmp_path / "study" / "allocation-repeat1"
    )


@pytest.mark.parametrize(
    ("written", "of_all"),
    [("1-00:00", "4323"), ("30:00", "93"), ("90", "273"), ("UNLIMITED", "UNLIMITED")],
)
def test_a_time_limit_is_read_as_slurm_reads_it(
    project: Project, written: str, of_all: str
) -> None:
    """A site's own template may write the limit in another of sbatch's forms."""
    _, shared = split_shared(planned(project, runs(scale={"nodes": (1, 2, 4), "repeats": 1})))
    folder, members = min(shared.items())
    del members[3:]
    for member in members:
        script = member / "job.sbatch"
        text = script.read_text().replace("#SBATCH --time=10\n", f"#SBATCH --time={written}\n")
        script.write_text(text)
    write_script(folder, members)
    assert ScriptOptions(folder).values["time"] == of_all
