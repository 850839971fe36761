"""`argosy why` says what a result depends on, and whether it still holds."""

from pathlib import Path

import pytest
from live_study import FakeStudy
from study_files import write_json

from argosy.jobs.outdated import Programs
from argosy.monitor.why import describe_dependencies
from argosy.run_folder.folder import RunFolder

COMMAND = "python3 /workloads/train.py --rate 1"


@pytest.fixture
def workloads(fake: FakeStudy) -> Path:
    folder = fake.site.parents[1] / "containers/workloads"
    folder.mkdir(parents=True)
    (folder / "train.py").write_text("import beside\n")
    (folder / "beside.py").write_text("")
    return folder


def measured(fake: FakeStudy, workloads: Path, command: str = COMMAND) -> Path:
    """A run that has completed."""
    run = fake.plan(command=command)
    run.execute()
    folder = RunFolder(run.path)
    programs = Programs(workloads).of(folder.spec)
    result = folder.result
    assert result
    content = {**result.content(), "spec": folder.spec.spec, "programs": programs}
    write_json(run.path / "result.json", content)
    return run.path


def said(folder: Path, workloads: Path) -> str:
    return "\n".join(describe_dependencies(folder, workloads))


def test_a_result_that_holds(fake: FakeStudy, workloads: Path) -> None:
    folder = measured(fake, workloads)
    text = said(folder, workloads)
    digest = Programs(workloads).of(RunFolder(folder).spec)["/workloads/train.py"]
    assert f"program   {digest[7:19]}  /workloads/train.py" in text
    assert "/workloads/beside.py" in text and "  has changed" not in text
    assert f"command   {COMMAND}" in text and "result    of attempt" in text
    assert "The result is up to date" in text


def test_the_change_is_named(fake: FakeStudy, workloads: Path) -> None:
    folder = measured(fake, workloads)
    (workloads / "beside.py").write_text("# Another.\n")
    text = said(folder, workloads)
    assert "/workloads/beside.py  has changed" in text
    assert "/workloads/train.py  has changed" not in text
    assert "measures it again, since /workloads/beside.py has changed." in text


def test_a_program_that_is_not_watched_is_said(fake: FakeStudy, workloads: Path) -> None:
    text = said(measured(fake, workloads, "mytool --fast"), workloads)
    assert "the command names no file of yours" in text


def test_a_run_without_a_result(fake: FakeStudy, workloads: Path) -> None:
    text = said(fake.plan(command=COMMAND).path, workloads)
    assert "result    none yet" in text and "/workloads/train.py" in text
