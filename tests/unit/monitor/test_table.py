"""The table as a terminal shows it."""

import io
import time

import pytest
from live_study import FakeStudy, ended_in, evenly, records, starts
from rich.console import Console

from argosy.monitor.study import Snapshot
from argosy.monitor.table import Layout, render, watch
from argosy.schedulers.base import State
from argosy.schedulers.slurm.commands import NoAnswerError
from argosy.terminal import rate, span
from argosy_common.reading import read_object

MOST_TIMES = 15
"""Generous; it takes half as many."""


def printed(snapshot: Snapshot, layout: Layout, width: int = 100) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width, highlight=False).print(render(snapshot, layout))
    return [line.rstrip() for line in out.getvalue().splitlines()]


@pytest.fixture
def study(fake: FakeStudy) -> FakeStudy:
    """One run that runs, one that is held, one that failed, one that is completed."""
    run = fake.plan(repeat=1)
    starts(run, "7.0")
    records(run, "7.0", 0, evenly(50))
    fake.queued(run, "7", State.RUNNING, nodes="gpu07", used_s=60.0, left_s=540.0)
    fake.queued(fake.plan(repeat=2), "8", State.PENDING, reason="JobHeldUser")
    failure = {"node": 0, "rank": None, "cause": "a disk is full", "at": 0}
    ended_in(fake.plan("mnist"), "9.0", "failed", failure)
    ended_in(fake.plan("mnist", nodes=2), "10.0", "completed")
    return fake


def test_every_run_is_a_line(study: FakeStudy) -> None:
    totals, empty, _, _, *lines = printed(study.study().look(5), Layout(), width=120)
    assert totals.endswith("4 runs, 1 running, 1 failed, 1 pending, 1 completed; 1 stuck (!)")
    assert not empty
    words = [line.split() for line in lines]
    assert words[0] == ["digits"]
    assert words[1][:3] == ["nodes1-ranks1-repeat1", "running", "7"]
    assert words[1][-3:] == ["50", "64.0", "gpu07"]
    assert " ".join(words[2][1:6]) == "pending 8 ! JobHeldUser: held"
    assert words[3] == ["mnist"]
    assert " ".join(words[4][1:]) == "failed 9 1m00s node 0 (host0): a disk is full"
    assert words[5][1] == "completed"


@pytest.mark.parametrize("width", range(50, 120, 3))
@pytest.mark.parametrize("room", [None, 40])
def test_a_measure_without_room_is_left_out_and_none_is_cut(
    study: FakeStudy, width: int, room: int | None
) -> None:
    snapshot = study.study().look(1.0)
    whole = {word for line in printed(snapshot, Layout(room=room), 400) for word in line.split()}
    lines = printed(snapshot, Layout(room=room), width)
    head = next(line for line in lines if line.startswith("run"))
    assert set(head.split()) <= whole
    place = head.index("time") + len("time")
    for line in lines:
        if " running " in line or " completed " in line:
            assert set(line[place:].split()) <= whole


def test_another_program_gets_whole_names(study: FakeStudy) -> None:
    lines = printed(study.study().look(5), Layout(grouped=False), width=400)
    (failed,) = [line for line in lines if "failed  " in line]
    assert failed.startswith("mnist/nodes1-ranks1-repeat1")


def test_a_small_screen_shows_what_matters(study: FakeStudy) -> None:
    lines = printed(study.study().look(5), Layout(room=11))
    assert len(lines) <= 11
    assert lines[-1] == "  not shown: 1 completed"
    assert all(len(line) <= 100 for line in lines)


def test_the_queues_silence_is_told(study: FakeStudy) -> None:
    def ask() -> list[object]:
        raise NoAnswerError("socket timed out")

    study.ask = ask  # type: ignore[assignment]
    lines = printed(study.study().look(5), Layout(), width=150)
    assert lines[1].startswith("Slurm has not answered since ")
    assert lines[1].endswith("(socket timed out); this table shows the files")


def test_without_a_terminal_it_prints_once_a_change(study: FakeStudy) -> None:
    out = io.StringIO()
    console = Console(file=out, width=200)
    looks = iter(range(100))
    answers = study.jobs

    def ask() -> list[object]:
        look = next(looks)
        if look == 3:
            run = study.plan(repeat=1)
            ended_in(run, "7.0", "completed")
            answers[0:2] = []
            study.queued(study.plan(repeat=2), "8", State.CANCELLED)
        return list(answers)

    study.ask = ask  # type: ignore[assignment]
    watch(study.study(), console, pause_s=0.01)
    lines = [line for line in out.getvalue().splitlines() if "repeat" in line]
    assert len(lines) == 4 + 2
    assert "completed" in lines[4] and "cancelled" in lines[5]


def test_in_a_terminal_it_ends_with_the_last_run(fake: FakeStudy) -> None:
    ended_in(fake.plan(), "7.0", "completed")
    out = io.StringIO()
    console = Console(file=out, width=100, height=30, force_terminal=True)
    watch(fake.study(), console, pause_s=0.01)
    assert "completed" in out.getvalue()


@pytest.mark.slow
def test_a_thousand_runs_are_looked_at_in_a_moment(fake: FakeStudy) -> None:
    for number in range(1000):
        run = fake.plan(f"study{number % 10}", ranks_per_node=4, repeat=1 + number // 10)
        job = str(number)
        if number % 10 == 0:
            starts(run, f"{job}.0")
            for rank in range(4):
                records(run, f"{job}.0", rank, evenly(300, seconds=0.05))
            fake.queued(run, job, State.RUNNING)
        elif number % 10 == 1:
            fake.queued(run, job, State.PENDING, reason="Priority")
        elif number % 10 == 2:
            failure = {"node": 0, "rank": 0, "cause": "exit code 1", "at": 0}
            ended_in(run, f"{job}.0", "failed", failure)
        else:
            ended_in(run, f"{job}.0", "completed")
            records(run, f"{job}.0", 0, evenly(20))
    study = fake.study()
    began = time.process_time()
    lines = printed(study.look(5), Layout())
    looked_s = time.process_time() - began
    began = time.process_time()
    for path in fake.site.rglob("*.json"):
        read_object(path, fake.site)
    # Processor time beside that of reading all its files: the machine may be busy.
    assert looked_s < MOST_TIMES * (time.process_time() - began)
    assert "1000 runs, 100 running, 100 failed, 100 pending, 700 completed" in lines[0]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (42.9, "42s"), (723, "12m03s"), (3600, "1h00m"), (183600, "2d03h")],
)
def test_a_span_of_time(seconds: float, text: str) -> None:
    assert span(seconds) == text


def test_a_rate_has_three_digits() -> None:
    assert [rate(value) for value in (0.256, 45.67, 12345.6)] == ["0.256", "45.7", "12,346"]
    assert [rate(value) for value in (0, 9.999, 0.00167, 1.02e-7)] == [
        "0.00",
        "10.00",
        "0.00167",
        "0.000000102",
    ]
