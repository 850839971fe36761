"""What planning writes, and what it leaves alone because something was measured by it."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from run_files import verdict
from small_studies import project_with, runs_of

from argosy.jobs.description import describe_run
from argosy.jobs.outdated import OTHER_PLAN, Programs, describe_outdated
from argosy.jobs.planning import Project, Target, plan_runs, write_runs
from argosy.run_folder.folder import RunFolder
from argosy.study.runs import Run
from argosy_common.errors import ArgosyError

LONG_AGO = 1_700_000_000


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return project_with(tmp_path, "local")


def runs(command: str = "true", repeats: int = 2, **more: Any) -> list[Run]:
    asked = {"command": command, "scale": {"nodes": [1], "repeats": repeats}, **more}
    return runs_of("study", **asked)


def planned(project: Project, asked: list[Run]) -> list[Path]:
    """The folders, whose files are made to look old."""
    scripts = write_runs(project, plan_runs(project, Target("local"), asked, {}))
    for script in scripts:
        for name in ("run.json", "provenance.json", "job.sbatch"):
            os.utime(script.parent / name, (LONG_AGO, LONG_AGO))
    return [script.parent for script in scripts]


def written_anew(project: Project, asked: list[Run]) -> list[list[str]]:
    """Which files of each run are written when these are planned."""
    folders = [
        script.parent
        for script in write_runs(project, plan_runs(project, Target("local"), asked, {}))
    ]
    return [
        sorted(path.name for path in folder.iterdir() if path.stat().st_mtime > LONG_AGO + 1)
        for folder in folders
    ]


def test_a_measured_run_keeps_what_says_how_it_was_measured(project: Project) -> None:
    first, _ = planned(project, runs())
    measured_as_planned(first)
    measured, waiting, new = written_anew(project, runs(repeats=3))
    assert measured == ["job.sbatch", "logs"]
    assert waiting == ["job.sbatch", "logs", "provenance.json"]
    assert new == ["job.sbatch", "logs", "provenance.json", "run.json"]


def measured_as_planned(folder: Path) -> None:
    """A result of what the run is planned for."""
    spec = json.loads((folder / "run.json").read_text())["spec"]
    (folder / "result.json").write_text(json.dumps(verdict(spec=spec).content()))
    os.utime(folder / "result.json", (LONG_AGO, LONG_AGO))


def program(project: Project, text: str) -> Path:
    """A program in the project's folder of them."""
    path = project.workloads_dir / "train.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def measured_with(project: Project, folder: Path) -> None:
    """A result of what the run is planned for, with the program as it is."""
    spec = RunFolder(folder).spec
    programs = Programs(project.workloads_dir).of(spec)
    assert [*programs] == ["/workloads/train.py"]
    result = verdict(spec=spec.spec, programs=programs)
    (folder / "result.json").write_text(json.dumps(result.content()))


def test_a_result_of_the_former_layout_is_refused_and_stays(project: Project) -> None:
    (folder,) = planned(project, runs(repeats=1))
    former = json.loads((folder / "run.json").read_text()) | {"runtime": "udocker"}
    (folder / "run.json").write_text(json.dumps(former))
    (folder / "result.json").write_text(json.dumps(verdict(spec="former").content()))
    with pytest.raises(ArgosyError, match=r"runtime is udocker, .*calls container") as said:
        planned(project, runs(repeats=1))
    assert "\n" not in str(said.value)
    assert (folder / "result.json").is_file()


def test_a_result_of_another_program_is_taken_away(project: Project) -> None:
    asked = runs("python3 /workloads/train.py", repeats=1)
    path = program(project, "1")
    (folder,) = planned(project, asked)
    measured_with(project, folder)
    before = (folder / "run.json").read_text()
    program(project, "2")
    program(project, "1")
    os.utime(path, (1, 1))
    planned(project, asked)
    assert (folder / "result.json").exists()
    program(project, "2")
    planned(project, asked)
    assert not (folder / "result.json").exists()
    assert (folder / "run.json").read_text() == before


def test_the_program_finds_no_files_of_another_plan(project: Project) -> None:
    def left(folder: Path) -> list[str]:
        return sorted(str(path.relative_to(folder)) for path in folder.glob("output*/*"))

    asked = runs("python3 /workloads/train.py", repeats=1)
    program(project, "1")
    (folder,) = planned(project, asked)
    (folder / "output").mkdir()
    (folder / "output/checkpoint").touch()
    # An attempt that failed is repeated with its files.
    program(project, "2")
    planned(project, asked)
    assert left(folder) == ["output/checkpoint"]
    measured_with(project, folder)
    planned(project, asked)
    assert left(folder) == ["output/checkpoint"]
    # Another program, and another command of a run that has no result.
    program(project, "3")
    planned(project, asked)
    assert left(folder) == ["output-1/checkpoint"]
    (folder / "output").mkdir()
    (folder / "output/checkpoint").touch()
    planned(project, runs("python3 /workloads/train.py --lr 1", repeats=1))
    assert left(folder) == ["output-1/checkpoint", "output-2/checkpoint"]


def test_a_result_that_noted_no_program_stays(project: Project) -> None:
    asked = runs("python3 /workloads/train.py", repeats=1)
    program(project, "1")
    (folder,) = planned(project, asked)
    measured_as_planned(folder)
    program(project, "2")
    planned(project, asked)
    assert (folder / "result.json").exists()


def test_runs_that_are_measured_again_share_a_line_for_each_cause() -> None:
    several = {f"study/nodes1-ranks1-repeat{repeat}": OTHER_PLAN for repeat in range(1, 6)}
    causes = {**several, "other/nodes1-ranks1-repeat1": "/workloads/\x1b[2Jtrain.py has changed"}
    assert describe_outdated(causes) == [
        "Measured again, since the request has changed: study/nodes1-ranks1-repeat1, "
        "study/nodes1-ranks1-repeat2, study/nodes1-ranks1-repeat3 and 2 more",
        "Measured again, since /workloads/train.py has changed: other/nodes1-ranks1-repeat1",
    ]
    assert describe_outdated({}) == []


def test_another_command_is_another_plan(project: Project) -> None:
    (folder,) = planned(project, runs(repeats=1))
    measured_as_planned(folder)
    (names,) = written_anew(project, runs("false", repeats=1))
    assert not (folder / "result.json").exists()
    assert {"run.json", "provenance.json"} < {*names}
    assert json.loads((folder / "run.json").read_text())["command"] == ["false"]


def test_variables_of_an_experiment_reach_its_ranks_as_they_are(project: Project) -> None:
    asked = runs(repeats=1, environment={"LIMIT": "{rank} $HOME", "OMP_NUM_THREADS": "4"})
    (folder,) = planned(project, asked)
    told = json.loads((folder / "run.json").read_text())["rank_environment"]
    assert told["LIMIT"].format(rank=3) == "{rank} $HOME"
    assert told["OMP_NUM_THREADS"] == "4"


@pytest.mark.parametrize(
    ("hang_timeout", "environment", "told"),
    [
        (None, {}, "12"),
        (600, {}, "60"),
        (25, {}, "5"),
        (0, {}, None),
        (None, {"HOROVOD_STALL_CHECK_TIME_SECONDS": "7"}, "7"),
    ],
)
def test_horovod_says_whom_it_misses_before_that_counts_as_a_hang(
    project: Project, hang_timeout: int | None, environment: dict[str, str], told: str | None
) -> None:
    wanted = None if hang_timeout is None else f"{hang_timeout}s"
    asked = runs(repeats=1, launcher="horovod", hang_timeout=wanted, environment=environment)
    (folder,) = planned(project, asked)
    run = json.loads((folder / "run.json").read_text())
    assert run["rank_environment"].get("HOROVOD_STALL_CHECK_TIME_SECONDS") == told
    assert run.get("hang_timeout_s") == hang_timeout


@pytest.mark.parametrize(("gpus", "told"), [(2, 2), (0, None)])
def test_the_agent_is_told_of_gpus_that_were_asked_for(
    project: Project, gpus: int, told: int | None
) -> None:
    (folder,) = planned(project, runs(repeats=1, resources={"gpus_per_rank": gpus}))
    assert json.loads((folder / "run.json").read_text()).get("gpus_per_rank") == told


def test_a_variable_by_which_ranks_find_each_other_is_not_the_experiments(
    project: Project,
) -> None:
    asked = runs(repeats=1, environment={"HOROVOD_RANK": "0"})
    with pytest.raises(ArgosyError, match=r"^experiments\.study\.environment\.HOROVOD_RANK: "):
        plan_runs(project, Target("local"), asked, {})


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        (
            {"runtime": "container", "image": "torch-cpu"},
            "study: the image torch-cpu has no image.lock",
        ),
        (
            {"scale": {"nodes": 1, "ranks_per_node": 2000}},
            r"experiments\.study: ranks_per_node: not a whole number from 1 to 1,024",
        ),
    ],
)
def test_a_run_that_no_job_could_read_is_not_written(
    project: Project, more: dict[str, Any], problem: str
) -> None:
    asked = runs(repeats=1, **more)
    with pytest.raises(ArgosyError, match=problem):
        write_runs(project, plan_runs(project, Target("local"), asked, {}))
    assert not (project.path / "results").exists()


def test_a_place_is_looked_for_before_anything_is_written(project: Project) -> None:
    (project.slurm_dir / "local" / "site.yaml").write_text("scheduler: nobody")
    with pytest.raises(ArgosyError, match=r"site\.yaml"):
        plan_runs(project, Target("local"), runs(), {})


@pytest.mark.parametrize(
    "result", ["{}", "{", json.dumps(verdict(spec="of another image").content())]
)
def test_a_result_of_something_else_is_taken_away(project: Project, result: str) -> None:
    (folder,) = planned(project, runs(repeats=1))
    planned(project, runs("false", repeats=1))
    (folder / "result.json").write_text(result)
    planned(project, runs(repeats=1))
    assert not (folder / "result.json").exists()


@pytest.mark.parametrize("version", [1, 3])
def test_a_result_of_another_version_is_left_and_named(project: Project, version: int) -> None:
    (folder,) = planned(project, runs(repeats=1))
    before = json.dumps({**verdict().content(), "schema_version": version})
    (folder / "result.json").write_text(before)
    said = (
        rf"result\.json: its schema_version is {version}; .* written by Argosy .*: use that version"
    )
    with pytest.raises(ArgosyError, match=said):
        planned(project, runs(repeats=1))
    assert (folder / "result.json").read_text() == before


def test_the_order_of_submission_decides_nothing_else(project: Project) -> None:
    first, _ = planned(project, runs())
    before = json.loads((first / "provenance.json").read_text())["submission"]
    assert before["order"] == "random within repeats"
    measured_as_planned(first)
    wider = {"nodes": [1, 2], "repeats": 2}
    written = written_anew(project, runs(scale=wider))
    assert "provenance.json" not in written[0] and "run.json" not in written[0]
    assert (first / "result.json").is_file()
    submissions = [
        json.loads((first.parent / run.run_id / "provenance.json").read_text())["submission"]
        for run in runs(scale=wider)
    ]
    # What was measured has the order of its own time.
    assert submissions[0] == before != submissions[2]


def test_a_file_that_no_longer_counts_is_compared_by_itself(project: Project) -> None:
    (project.path / "containers/workloads").mkdir(parents=True)
    for name in ("train.py", "beside.py"):
        (project.workloads_dir / name).write_text("")
    [plan] = plan_runs(project, Target("local"), runs("python3 /workloads/train.py", repeats=1), {})
    spec = describe_run(plan)
    both = runs("python3 /workloads/train.py /workloads/beside.py", repeats=1)
    [wider] = plan_runs(project, Target("local"), both, {})
    before = Programs(project.workloads_dir).of(describe_run(wider))
    assert {*before} == {"/workloads/train.py", "/workloads/beside.py"}
    assert Programs(project.workloads_dir).changed(before, spec) == []
    (project.workloads_dir / "beside.py").write_text("# Another.\n")
    assert Programs(project.workloads_dir).changed(before, spec) == ["/workloads/beside.py"]
