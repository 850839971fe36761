"""Which log is meant, and following it."""

import io
import threading
import time
from pathlib import Path

import pytest
from live_study import FakeStudy, ended_in, starts
from study_files import RunFiles

from argosy.monitor.logs import Log, kind_of
from argosy.monitor.sites import find_run
from argosy.schedulers.base import State
from argosy_common.errors import ArgosyError


@pytest.fixture(autouse=True)
def in_project(fake: FakeStudy, monkeypatch: pytest.MonkeyPatch) -> None:
    fake.plan(repeat=1)
    fake.plan(repeat=2)
    fake.plan("mnist", nodes=10)
    monkeypatch.chdir(fake.site.parents[1])


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("digits/nodes1-ranks1-repeat2", "digits/nodes1-ranks1-repeat2"),
        ("repeat2", "digits/nodes1-ranks1-repeat2"),
        ("mnist", "mnist/nodes10-ranks1-repeat1"),
        ("cluster/mnist/nodes10-ranks1-repeat1", "mnist/nodes10-ranks1-repeat1"),
        ("results/cluster/mnist/nodes10-ranks1-repeat1/", "mnist/nodes10-ranks1-repeat1"),
    ],
)
def test_a_unique_part_of_its_name_finds_a_run(fake: FakeStudy, text: str, name: str) -> None:
    assert find_run(text) == fake.site / name


def test_a_whole_name_is_not_ambiguous_though_others_begin_like_it(fake: FakeStudy) -> None:
    fake.plan("big/../mnist", nodes=10, repeat=10)
    assert find_run("mnist/nodes10-ranks1-repeat1").name == "nodes10-ranks1-repeat1"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "digits",
            "digits: 2 runs have this name; there are digits/nodes1-ranks1-repeat1, "
            "digits/nodes1-ranks1-repeat2",
        ),
        (
            "none",
            "none: no such run; there are digits/nodes1-ranks1-repeat1, "
            "digits/nodes1-ranks1-repeat2, mnist/nodes10-ranks1-repeat1",
        ),
    ],
)
def test_a_name_that_is_not_one_is_answered_with_the_candidates(text: str, message: str) -> None:
    with pytest.raises(ArgosyError) as problem:
        find_run(text)
    assert str(problem.value) == message


def test_many_candidates_are_cut_short(fake: FakeStudy) -> None:
    for repeat in range(3, 20):
        fake.plan(repeat=repeat)
    with pytest.raises(ArgosyError, match=r"repeat8 and 11 more$"):
        find_run("digits")


def test_one_log_at_a_time() -> None:
    assert [kind_of(3, None, False), kind_of(None, 0, False), kind_of(None, None, True)] == [
        "rank-3",
        "node-0",
        "job",
    ]
    with pytest.raises(ArgosyError, match="give at most one of --rank, --node, --job"):
        kind_of(1, 0, False)


def printed(log: Log) -> str:
    out = io.BytesIO()
    log.print(out)
    return out.getvalue().decode()


def test_the_newest_executions_log_is_printed(fake: FakeStudy) -> None:
    run = fake.plan()
    starts(run, "7.0", seconds_ago=100)
    starts(run, "7.1", seconds_ago=50)
    (run.path / "logs/7.1/job.log").write_text("the second\n")
    assert printed(Log(run.path, "job")) == "the second\n"
    assert printed(Log(run.path, "rank-0")) == "rank-0 of nodes1-ranks1-repeat1\n"


def test_a_run_s_log_is_the_job_s_with_what_its_ranks_printed(fake: FakeStudy) -> None:
    run = fake.plan("wide", nodes=11)
    starts(run, "7.0", seconds_ago=100)
    logs = run.path / "logs/7.0"
    (logs / "job.log").write_text("the job's\n")
    for rank in range(11):
        (logs / f"ranks/rank-{rank}.log").write_text("")
    (logs / "ranks/rank-2.log").write_text("two\n\nlines")
    (logs / "ranks/rank-10.log").write_text("ten\n")
    assert printed(Log(run.path)) == "the job's\n[2] two\n[2] \n[2] lines\n[10] ten\n"


@pytest.mark.parametrize("noted", [True, False])
def test_before_the_job_has_a_log_slurms_is_printed(fake: FakeStudy, noted: bool) -> None:
    run = fake.plan()
    (run.path / "logs").mkdir()
    (run.path / "logs/scheduler-7.log").write_text("slurmstepd: error: no such user\n")
    if noted:
        fake.submitted(run, "7")
    assert printed(Log(run.path)) == "slurmstepd: error: no such user\n"


def test_a_missing_log_is_a_mistake_that_names_those_there_are(fake: FakeStudy) -> None:
    run = fake.plan()
    with pytest.raises(ArgosyError, match="no log: the run has not started"):
        Log(run.path).print(io.BytesIO())
    starts(run, "7.0")
    expected = "there is no log of rank-9 yet; there are job, node-0, rank-0"
    with pytest.raises(ArgosyError, match=expected):
        Log(run.path, "rank-9").print(io.BytesIO())


def test_following_ends_with_the_run(fake: FakeStudy) -> None:
    run = fake.plan()
    fake.queued(run, "7", State.RUNNING)
    out = io.BytesIO()
    follower = following(fake, run, out)
    (run.path / "logs").mkdir()
    (run.path / "logs/scheduler-7.log").write_text("first\n")
    _until(out, b"first\n")
    starts(run, "7.0")
    log = run.path / "logs/7.0/job.log"
    rank = b"[0] rank-0 of nodes1-ranks1-repeat1\n"
    _until(out, b"first\n" + log.read_bytes() + rank)
    with (log.parent / "ranks/rank-0.log").open("a") as file:
        # A line is shown when it is whole, so that no other gets into it.
        file.write("half a")
        file.flush()
        time.sleep(0.6)
        file.write(" line\n")
    _until(out, b"first\n" + log.read_bytes() + rank + b"[0] half a line\n")
    with log.open("a") as file:
        file.write("last\n")
    last = log.read_bytes()
    ranks = (log.parent / "ranks/rank-0.log").read_bytes()
    ended_in(run, "7.0", "failed")
    log.write_bytes(last)
    (log.parent / "ranks/rank-0.log").write_bytes(ranks)
    fake.jobs.clear()
    follower.join(20)
    assert not follower.is_alive()
    assert out.getvalue().startswith(b"first\n")
    assert out.getvalue().endswith(b"last\n")


@pytest.mark.parametrize("verdict", [None, "failed", "interrupted", "cancelled"])
def test_following_goes_on_while_the_job_may(fake: FakeStudy, verdict: str | None) -> None:
    """A requeued job begins again after a verdict; a killed one ends without any."""
    run = fake.plan()
    fake.submitted(run, "7")
    starts(run, "7.0")
    if verdict:
        ended_in(run, "7.0", verdict)
    fake.queued(
        run, "7", State.REQUEUED if verdict else State.RUNNING, restarts=1 if verdict else 0
    )
    out = io.BytesIO()
    follower = following(fake, run, out)
    follower.join(1.5)
    assert follower.is_alive()
    fake.jobs.clear()
    follower.join(20)
    assert not follower.is_alive()


def following(fake: FakeStudy, run: RunFiles, out: io.BytesIO) -> threading.Thread:
    log, study = Log(run.path), fake.study()
    follower = threading.Thread(target=log.follow, args=(out, study), daemon=True)
    follower.start()
    return follower


def _until(out: io.BytesIO, text: bytes) -> None:
    deadline = time.monotonic() + 5
    while out.getvalue() != text:
        assert time.monotonic() < deadline, out.getvalue()
        time.sleep(0.01)


def test_outside_of_a_project_there_is_nothing(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty: Path = tmp_path_factory.mktemp("empty")
    monkeypatch.chdir(empty)
    with pytest.raises(ArgosyError, match="no run is planned here"):
        find_run("x")


@pytest.mark.parametrize("number", ["\ud800", "a\0b", "a" * 9000])
def test_the_log_of_a_job_whose_number_no_file_has_is_not_there(
    fake: FakeStudy, number: str
) -> None:
    run = fake.plan("odd")
    fake.submitted(run, number)
    assert Log(run.path).path is None
