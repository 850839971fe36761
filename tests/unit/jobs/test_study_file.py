"""What a site's runs are planned for is written down, and anything else is seen."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from run_files import verdict
from small_studies import project_with, runs_of

from argosy.jobs.description import Plan
from argosy.jobs.driver import HandedOn
from argosy.jobs.planning import Project, Target, plan_runs, write_runs
from argosy.jobs.study_file import (
    check_date,
    find_outdated,
    in_order,
    is_planned,
    read_study,
    study_text,
)
from argosy.study.config import parse_config
from argosy.study.runs import Run, expand
from argosy_common.errors import ArgosyError

ROOT = Path(__file__).parents[3]
WHERE = Target("local")
COMMAND = "true {3}"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.chdir(tmp_path)
    return project_with(tmp_path / "project", "local")


def plans(project: Project, command: str = COMMAND) -> list[Plan]:
    return plan_runs(project, WHERE, runs_of(command=command, scale={"nodes": 1}), {})


def text_of(project: Project, command: str = COMMAND) -> str:
    """What a Snakemake hands on."""
    template = project.slurm_dir / "templates/base.sbatch.j2"
    return study_text(project, plans(project, command), [template])


def study_file(project: Project) -> Path:
    return project.path / "results/local/study.json"


def test_the_same_study_is_planned_once(project: Project, tmp_path: Path) -> None:
    text = text_of(project)
    path = study_file(project)
    assert not is_planned(path, text)
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert is_planned(path, text_of(project))
    assert not is_planned(path, text_of(project, "false"))
    assert read_study(path, "local", project) == (text, plans(project))
    assert [*tmp_path.glob("results/*")] == []


def test_runs_without_their_files_are_not_planned(project: Project) -> None:
    text, path = text_of(project), study_file(project)
    folders = [script.parent for script in write_runs(project, plans(project))]
    path.write_text(text)
    assert is_planned(path, text, folders)
    (folders[0] / "run.json").unlink()
    assert not is_planned(path, text, folders)


def test_other_files_of_an_image_are_another_study(project: Project) -> None:
    texts = {study_text(project, plans(project), [], files) for files in ((), ("a", "b"))}
    assert len(texts) == 2


def test_files_are_in_order_where_none_is_newer_than_a_later_one(tmp_path: Path) -> None:
    a, b, c = (str(tmp_path / name) for name in "abc")
    for path, time in ((a, 1), (b, 2), (c, 2)):
        Path(path).touch()
        os.utime(path, (time, time))
    assert in_order() and in_order([], [a], [], [b, c]) and in_order([b], [c])
    assert not in_order([b], [a]) and not in_order([b], [], [c, a])
    assert not in_order([a], [f"{c} is not there"])


@pytest.mark.parametrize("in_memory", [True, False])
def test_programs_read_what_is_handed_on_and_no_folder_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_memory: bool
) -> None:
    if not in_memory:
        monkeypatch.delattr(os, "memfd_create")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    held = HandedOn.of("a study: ä\n")
    for _ in range(2):
        done = subprocess.run(["cat", held.path], capture_output=True, text=True, cwd=tmp_path)
        assert done.stdout == "a study: ä\n", done.stderr
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("study", sorted(path.name for path in (ROOT / "config").glob("*.yaml")))
def test_runs_are_read_as_they_were_written(study: str) -> None:
    content = yaml.safe_load((ROOT / "config" / study).read_text())
    runs = expand(parse_config(content, []))
    written = [json.loads(run.model_dump_json()) for run in runs]
    assert [Run.model_validate(run) for run in written] == runs


def test_another_store_python_site_or_place_changes_it(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {text_of(project)}
    monkeypatch.setenv("ARGOSY_STORE", str(tmp_path / "scratch"))
    found.add(text_of(project))
    monkeypatch.setattr(sys, "executable", "/elsewhere/bin/python")
    found.add(text_of(project))
    site = project.slurm_dir / "local/site.yaml"
    site.write_text(f"{site.read_text()}\nenvironment: {{OMP_PROC_BIND: close}}\n")
    os.utime(site, (1, 1))
    found.add(text_of(project))
    shutil.copytree(project.path, tmp_path / "copy")
    found.add(text_of(Project(tmp_path / "copy")))
    assert len(found) == 5


def test_results_of_something_else_are_found_until_they_are_taken_away(project: Project) -> None:
    scripts = write_runs(project, plans(project))
    result = scripts[0].parent / "result.json"
    result.write_text(json.dumps(verdict(spec="of another command").content()))
    before = result.stat().st_mtime_ns
    for _ in range(2):
        [(run, cause)] = find_outdated(project, plans(project)).items()
        assert run.endswith("repeat1") and cause == "the request has changed"
        assert result.stat().st_mtime_ns == before
    write_runs(project, plans(project))
    assert not result.exists() and find_outdated(project, plans(project)) == {}


def test_what_snakemake_would_take_for_new_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "runs.txt"
    check_date(path)
    path.write_text("")
    os.utime(path, (2e9, 2e9))
    with pytest.raises(ArgosyError, match="its time stamp is in the future"):
        check_date(path)


@pytest.mark.parametrize("content", [None, "{", "{}", "[]"])
def test_a_damaged_file_is_named(project: Project, content: Any) -> None:
    file = study_file(project)
    if content is not None:
        file.parent.mkdir(parents=True)
        file.write_text(content)
    with pytest.raises(ArgosyError, match=r"study\.json: cannot be read .*; run: snakemake"):
        read_study(file, "local", project)
