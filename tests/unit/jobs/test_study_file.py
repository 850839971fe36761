"""What a site's runs are planned for is written down, and anything else is seen."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from run_files import verdict

from argosy.errors import ArgosyError
from argosy.jobs.description import Plan
from argosy.jobs.planning import Project, Target, plan_runs, write_runs
from argosy.jobs.study_file import StudyFile
from argosy.study.config import parse_config
from argosy.study.runs import Run, expand

ROOT = Path(__file__).parents[3]
SLURM = ROOT / "slurm"
WHERE = Target("local")
COMMAND = "true {3}"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    for folder in ("templates", "local"):
        shutil.copytree(SLURM / folder, tmp_path / "project/slurm" / folder)
    monkeypatch.chdir(tmp_path)
    return Project(tmp_path / "project")


def plans(project: Project, command: str = COMMAND) -> list[Plan]:
    one = {"runtime": "native", "command": command, "scale": {"nodes": [1]}}
    runs = expand(parse_config({"experiments": {"one": one}}, []))
    return plan_runs(project, WHERE, runs, {})


def written(project: Project) -> str:
    """The file after Snakemake was started."""
    file = StudyFile(project, "local")
    file.update(WHERE, plans(project))
    return file.path.read_text()


def test_it_stays_as_it_is_while_all_of_it_is_the_same(project: Project) -> None:
    first = written(project)
    StudyFile(project, "local").note_planned()
    before = StudyFile(project, "local").path.stat().st_mtime_ns
    assert written(project) == first
    assert StudyFile(project, "local").path.stat().st_mtime_ns == before
    runs = [plan.run for plan in plans(project)]
    assert StudyFile(project, "local").read() == (WHERE, runs)


@pytest.mark.parametrize("study", sorted(path.name for path in (ROOT / "config").glob("*.yaml")))
def test_runs_are_read_as_they_were_written(study: str) -> None:
    content = yaml.safe_load((ROOT / "config" / study).read_text())
    runs = expand(parse_config(content, []))
    written = [json.loads(run.model_dump_json()) for run in runs]
    assert [Run.model_validate(run) for run in written] == runs


def test_scripts_of_another_study_are_planned_anew_however_new_they_look(project: Project) -> None:
    written(project)
    file = StudyFile(project, "local")
    file.note_planned()
    file.update(WHERE, plans(project, "false"))
    # The scripts are those of before, and Snakemake was told that they are new.
    changed = file.path.read_text()
    file.update(WHERE, plans(project, "false"))
    assert file.path.read_text() != changed


def test_another_store_python_or_place_changes_it(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {written(project)}
    monkeypatch.setenv("ARGOSY_STORE", str(tmp_path / "scratch"))
    found.add(written(project))
    monkeypatch.setattr(sys, "executable", "/elsewhere/bin/python")
    found.add(written(project))
    shutil.copytree(project.path, tmp_path / "copy")
    found.add(written(Project(tmp_path / "copy")))
    assert len(found) == 4


def test_results_of_something_else_change_it_each_time(project: Project) -> None:
    scripts = write_runs(project, plans(project))
    first = written(project)
    result = scripts[0].parent / "result.json"
    for _ in range(2):
        result.write_text(json.dumps(verdict(spec="of another command").content()))
        [(run, cause)] = StudyFile(project, "local").update(WHERE, plans(project)).items()
        assert run.endswith("repeat1") and cause == "what is asked for has changed"
        second = StudyFile(project, "local").path.read_text()
        assert second != first
        write_runs(project, plans(project))
        StudyFile(project, "local").note_planned()
        assert not result.exists()
        first = written(project)
        assert first == second


@pytest.mark.parametrize("content", [None, "{", "{}", "[]"])
def test_a_damaged_file_is_named(project: Project, content: Any) -> None:
    file = StudyFile(project, "local")
    if content is not None:
        file.path.parent.mkdir(parents=True)
        file.path.write_text(content)
    with pytest.raises(ArgosyError, match=r"study\.json: cannot be read .*; run snakemake"):
        file.read()
