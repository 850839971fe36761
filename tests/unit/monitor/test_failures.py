"""What is said of the runs that came to nothing, when a workflow ends."""

import logging
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from live_study import FakeStudy, ended_in, starts
from study_files import RunFiles

from argosy.jobs.driver import ToldErrors
from argosy.monitor import failures
from argosy.monitor.failures import Failed, describe, failed_runs, print_failures
from argosy.monitor.jobs import newest_job
from argosy.run_folder.folder import RunFolder

FAILURE = {"node": 0, "rank": 0, "cause": "killed by signal 9 (SIGKILL)", "at": 1.0}


def test_failed_and_cancelled_runs_are_told_apart(fake: FakeStudy) -> None:
    runs = [fake.plan(repeat=repeat) for repeat in (1, 2, 3)]
    for number, run in enumerate(runs):
        fake.submitted(run, str(number), scheduler="local")
        starts(run, f"{number}.0")
    rank = runs[0].path / "logs/0.0/ranks/rank-0.log"
    rank.write_text("epoch 1\n\x1b[31mepoch 2\x1b[0m\n")
    runs[0].execute("0.0", "failed", failure=FAILURE)
    rank.write_text("epoch 1\n\x1b[31mepoch 2\x1b[0m\n")
    ended_in(runs[1], "1.0", "cancelled")
    ended_in(runs[2], "2.0", "completed")
    planned = [run.path for run in runs]
    said = [*describe(failed_runs(fake.site, planned), fake.site / "report.html")]
    assert said[:4] == [f"The last lines of {rank}:", "    epoch 1", "    epoch 2", ""]
    assert said[4] == "2 runs failed or ended early:"
    assert said[5].startswith(
        "  digits/nodes1-ranks1-repeat1: rank 0 (node 0, host0): killed by signal 9"
    )
    assert said[6].startswith("  digits/nodes1-ranks1-repeat2: cancelled; see ")
    assert len(said) == 7
    # Those that are asked for no longer are not spoken of.
    assert failed_runs(fake.site, planned[2:]) == []


def test_runs_with_one_cause_share_a_line(fake: FakeStudy) -> None:
    runs = [fake.plan(repeat=repeat) for repeat in range(1, 26)]
    for run in runs:
        fake.submitted(run, "7", scheduler="local")
        ended_in(run, "7.0", "cancelled")
    report = Path("results/cluster/report.html")
    heading, first, others = describe(failed_runs(fake.site, [run.path for run in runs]), report)
    assert heading == "25 runs failed or ended early:"
    assert first.startswith("  digits/nodes1-ranks1-repeat1: cancelled; see ")
    assert others.startswith("    the same for digits/nodes1-ranks1-repeat2, ")
    assert others.endswith(" and 19 more")


def test_a_log_is_named_once_and_does_not_tell_causes_apart(fake: FakeStudy) -> None:
    """Each run's cause names a log of its own attempt; one that is empty tells less than the node's."""
    runs = [fake.plan(repeat=repeat) for repeat in (1, 2, 3)]
    for number, run in enumerate(runs, 1):
        fake.submitted(run, str(number), scheduler="local")
        starts(run, f"{number}.0")
        cause = f"no match; see logs/{number}.0/ranks/rank-0.log"
        run.execute(f"{number}.0", "failed", failure={**FAILURE, "rank": None, "cause": cause})
    (runs[2].path / "logs/3.0/ranks/rank-0.log").write_text("")
    failed = failed_runs(fake.site, [run.path for run in runs])
    first, others = [*describe(failed, Path("results/cluster/report.html"))][-2:]
    log = f"{runs[0].path}/logs/1.0/ranks/rank-0.log"
    assert first == f"  digits/nodes1-ranks1-repeat1: node 0 (host0): no match; see {log}"
    assert others.startswith("    the same for digits/nodes1-ranks1-repeat2, digits/nodes1-")
    assert failed[2].log == runs[2].path / "logs/3.0/node-0.log"


def test_of_many_causes_some_are_listed() -> None:
    failed = [Failed(f"digits/run{number}", f"exit code {number}") for number in range(1, 26)]
    said = [*describe(failed, Path("results/cluster/report.html"))]
    assert said[:2] == ["25 runs failed:", "  digits/run1: exit code 1"]
    assert len(said) == 22
    assert said[-1] == "  and 5 more; `argosy status cluster` has all"


def test_a_run_whose_folder_is_gone_is_not_forgotten(fake: FakeStudy) -> None:
    runs = [fake.plan(repeat=repeat) for repeat in (1, 2)]
    for run in runs:
        ended_in(run, "2.0", "completed")
    planned = [run.path for run in runs]
    gone = Failed("digits/nodes1-ranks1-repeat1", "its folder is gone; `snakemake` plans it again")
    shutil.rmtree(planned[0])
    assert failed_runs(fake.site, planned) == [gone]
    shutil.rmtree(planned[1])
    assert len(failed_runs(fake.site, planned)) == 2


def test_the_log_of_an_older_job_is_not_shown_for_one_that_never_began(fake: FakeStudy) -> None:
    run = fake.plan()
    fake.submitted(run, "6", "7")
    starts(run, "6.0", seconds_ago=time.time())
    (run.path / "logs/6.0/job.log").write_text("long ago\n")
    folder = RunFolder(run.path)
    job = newest_job(folder, None)
    assert failures._log_of(folder, job, None) is None
    (run.path / "logs/scheduler-7.log").write_text("slurmstepd: error\n")
    assert failures._log_of(folder, job, None) == run.path / "logs/scheduler-7.log"


def told(run: RunFiles, message: str) -> ToldErrors:
    """What a Snakemake was told of a run, as its logger says it."""
    errors = ToldErrors()
    result = run.path / "result.json"
    record = logging.makeLogRecord(
        {
            "levelno": logging.ERROR,
            "msg": "Error in rule run",
            "rule_name": "run",
            "rule_msg": message,
            "output": [str(result)],
            "log": [],
        }
    )
    errors.handle(record)
    errors.handle(logging.makeLogRecord({"levelno": logging.ERROR, "msg": "no job's"}))
    return errors


def test_what_the_driver_was_told_counts_and_no_older_job(fake: FakeStudy) -> None:
    run, other = (fake.plan(repeat=repeat) for repeat in (1, 2))
    for each in (run, other):
        fake.submitted(each, "7", scheduler="local")
        ended_in(each, "7.0", "failed", FAILURE)
        for path in (each.path / "job.json", each.attempt("7.0") / "verdict.json"):
            os.utime(path, (1e9, 1e9))
    planned = [run.path, other.path]
    refused = "digits/nodes1-ranks1-repeat1: not in the store. "
    (failed,) = failed_runs(fake.site, planned, told(run, refused))
    assert failed == Failed("digits/nodes1-ranks1-repeat1", "not in the store")
    # One whose job has ended since is told by its verdict.
    os.utime(run.attempt("7.0") / "verdict.json")
    (failed,) = failed_runs(fake.site, planned, told(run, "any"))
    assert failed.cause.startswith("rank 0 (node 0, host0): killed by signal 9")
    assert len(failed_runs(fake.site, planned)) == 2


def test_a_rule_of_this_machine_is_told_by_the_last_error_of_its_log(
    fake: FakeStudy, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = fake.plan()
    (fake.site / "runs.txt").write_text(f"{run.path}\n")
    log = tmp_path / "preflight.log"
    log.write_text("asking\nerror: sbatch: too much memory\nhint: ask for less\nlast words\n")
    errors = ToldErrors()
    record = {
        "levelno": logging.ERROR,
        "rule_name": "preflight",
        "rule_msg": None,
        "log": [str(log)],
    }
    errors.handle(logging.makeLogRecord(record))
    print_failures(fake.site, errors)
    assert capsys.readouterr().err.splitlines() == [
        f"The rule preflight failed: sbatch: too much memory; see {log}",
        "    hint: ask for less",
    ]


def test_a_run_that_was_never_submitted_has_the_cause_that_was_told(fake: FakeStudy) -> None:
    run = fake.plan()
    (failed,) = failed_runs(fake.site, [run.path], told(run, "sbatch: error: more than there is. "))
    assert failed.cause == "sbatch: error: more than there is"
    # Tried again, it has completed.
    ended_in(run, "7.0", "completed")
    assert failed_runs(fake.site, [run.path], told(run, "sbatch: error")) == []


def failed_with(fake: FakeStudy, **failure: Any) -> list[Failed]:
    """Return the failed runs of a study whose only run ended so."""
    run = fake.plan()
    fake.submitted(run, "7", scheduler="local")
    starts(run, "7.0")
    run.execute("7.0", "failed", failure={**FAILURE, **failure})
    return failed_runs(fake.site, [run.path])


@pytest.mark.parametrize(
    ("cause", "check"),
    [
        ("exit code 1: Error: it did not start: tmpdir", ""),
        (
            "it did not start: no folder for temporary files can be made in /x; `tmpdir` in …",
            "tmpdir",
        ),
        ("it did not start: it does not see /r: … on a file system that all nodes share", "files"),
        (
            "cannot reach the head (node 0, n1) at 10.0.0.1: by interface ib9: timed out",
            "interface",
        ),
        ("it did not start: it cannot run /p/.venv/bin/python, by which …", "environment"),
        ("exit status 3", ""),
        ("my program has no interface", ""),
    ],
)
def test_a_fault_of_the_site_leads_to_the_doctors_check(
    fake: FakeStudy, cause: str, check: str
) -> None:
    failed = failed_with(fake, rank=None, cause=cause)
    assert failed[0].cause == f"node 0 (host0): {cause}"
    said = [*describe(failed, Path("results/cluster/report.html"))]
    lead = f"    `argosy doctor cluster` checks that: `{check}`"
    assert (lead in said) == bool(check)
    assert ("doctor" in "".join(said)) == bool(check)


def test_what_a_program_prints_leads_to_no_check(fake: FakeStudy) -> None:
    failed = failed_with(fake, cause="it did not start: no such interface")
    said = [*describe(failed, Path("results/cluster/report.html"))]
    assert "doctor" not in "".join(said)


@pytest.mark.parametrize(
    ("cause", "shown"),
    [
        (
            "[Errno 28] No space left on device: '/job/records/7.0/rank-0.steps'",
            "'{run}/records/7.0/",
        ),
        ("cannot write /job/logs/7.0", "cannot write {run}/logs/7.0"),
        (
            "cannot read /home/me/job/records and /job/mine",
            "read /home/me/job/records and /job/mine",
        ),
    ],
)
def test_a_path_of_the_container_is_shown_as_the_users(
    fake: FakeStudy, cause: str, shown: str
) -> None:
    [failed] = failed_with(fake, rank=None, cause=cause)
    assert shown.format(run=fake.site / failed.name) in failed.cause


def test_a_host_on_which_all_failed_is_named_with_the_remedy(fake: FakeStudy) -> None:
    runs = [fake.plan(repeat=repeat) for repeat in (1, 2, 3)]
    for number, run in enumerate(runs):
        fake.submitted(run, str(number), scheduler="slurm")
        starts(run, f"{number}.0")
        state = "completed" if number == 2 else "failed"
        run.execute(f"{number}.0", state, failure=None if number == 2 else FAILURE)
    planned = [run.path for run in runs]
    remedy = "all on host0, where no run completed: `options: {exclude: host0}`"
    # The third completed on the same host.
    assert remedy not in "".join(
        describe(failed_runs(fake.site, planned), fake.site / "report.html")
    )
    result = runs[2].path / "result.json"
    result.write_text(result.read_text().replace("host0", "host7"))
    assert remedy in "".join(describe(failed_runs(fake.site, planned), fake.site / "report.html"))
