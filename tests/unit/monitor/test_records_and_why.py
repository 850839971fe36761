"""`argosy records` and `argosy why`: records and dependencies of a run."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import step_files
from command_line import Argosy
from live_study import FakeStudy, starts
from planted_files import SECRET, Outside, plant
from study_files import RunFiles, write_json

from argosy.jobs.outdated import Programs
from argosy.monitor.why import describe_dependencies
from argosy.run_folder.folder import RunFolder

RUN = "digits/nodes1-ranks2-repeat1"


@pytest.fixture
def run(fake: FakeStudy) -> RunFiles:
    """Two ranks that have done three steps so far, of a run under way."""
    run = fake.plan(ranks_per_node=2)
    starts(run, "7.0")
    run.steps("7.0", steps=3, phases={"data": 0.5}, metrics={"loss": 0.5})
    run.telemetry(0, attempt="7.0")
    run.printed([3.0], "7.0")
    return run


def project(run: RunFiles) -> Path:
    return run.path.parents[3]


Printed = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def printed(run: RunFiles, argosy: Argosy) -> Printed:
    """Return the lines that the command prints."""

    def lines(*options: str) -> list[dict[str, Any]]:
        done = argosy("records", RUN, *options, folder=project(run))
        assert (done.status, done.err) == (0, "")
        return [json.loads(line) for line in done.out.splitlines()]

    return lines


def test_a_rank_s_records_are_its_lines_and_its_steps(printed: Printed) -> None:
    header, metric, *steps = printed("--rank", "0")
    assert (header["kind"], header["rank"], metric["name"]) == ("header", 0, "loss")
    assert [step["step"] for step in steps] == [0, 1, 2]
    assert steps[1] == {
        "kind": "step",
        "rank": 0,
        "step": 1,
        "epoch": 0,
        "samples": 32,
        "start": 1001.0,
        "seconds": 1.0,
        "phases": {"data": 0.5},
    }


def test_all_ranks_come_one_after_the_other(printed: Printed) -> None:
    found = printed()
    assert [each["rank"] for each in found if each["kind"] == "step"] == [0] * 3 + [1] * 3
    assert {each["kind"] for each in found} == {"header", "metric", "step", "printed", "node"}


def test_what_is_damaged_or_being_written_is_said_beside(run: RunFiles, argosy: Argosy) -> None:
    path = run.steps_file("7.0", 1)
    parts = step_files.rows(path)
    step_files.write_rows(path, [*parts[:2], bytes(len(parts[2])), parts[3], parts[3][:40]])
    with run.rank_file("7.0", 1).open("a") as file:
        file.write('{"kind": "metr')
    done = argosy("records", RUN, "--rank", "1", folder=project(run))
    assert done.status == 0
    kinds = [json.loads(line)["kind"] for line in done.out.splitlines()]
    assert kinds == ["header", "step", "step"]
    assert done.err.splitlines() == [
        f"{run.rank_file('7.0', 1)}: damaged or truncated records, not shown: 1",
        f"{path}: damaged or truncated records, not shown: 2",
    ]


def test_a_rank_that_there_is_not(run: RunFiles, argosy: Argosy) -> None:
    done = argosy("records", RUN, "--rank", "7", folder=project(run))
    assert done.err == f"error: {RUN}: there are no records of rank 7 yet\n"
    assert done.status == 2


def test_what_a_terminal_would_act_on_is_left_out(run: RunFiles, printed: Printed) -> None:
    with run.rank_file("7.0", 0).open("a") as file:
        file.write('{"kind": "\x1b]0;owned\x07"}\n')
    assert printed("--rank", "0")[2] == {"kind": ""}


@pytest.mark.slow
def test_whatever_a_program_puts_there_is_not_followed(
    run: RunFiles, argosy: Argosy, tmp_path: Path
) -> None:
    outside = Outside(tmp_path / "outside")
    for path in (run.steps_file("7.0", 0), run.rank_file("7.0", 0), run.records("7.0")):
        for what, put in outside.kinds().items():
            plant(path, put)
            began = time.monotonic()
            done = argosy("records", RUN, folder=project(run))
            assert time.monotonic() - began < 10, what
            assert "Traceback" not in done.err, what
            assert SECRET not in done.out + done.err, what
            assert "\x1b" not in done.out + done.err, what
            plant(path, Path.touch)
        path.unlink()


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
