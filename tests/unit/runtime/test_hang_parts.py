"""When a silent job is looked at, when that is a hang, and what is said of it."""

import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import step_files
from agent_job import PYTHON

from argosy.runtime.agent.coordination.failure import Failure
from argosy.runtime.agent.hangs import activity
from argosy.runtime.agent.hangs.activity import Activity
from argosy.runtime.agent.hangs.judge import LEAST, PATIENT, HangJudge
from argosy.runtime.agent.hangs.places import (
    ENDED,
    IS,
    STOPPED,
    UNKNOWN,
    WAITS,
    WORKS,
    Place,
    place_of,
    sentence,
)
from argosy.runtime.agent.hangs.stacks import Frame
from argosy.runtime.agent.hangs.stall_warning import StallWarnings
from argosy.runtime.agent.transport.messages import Order, Report


class Head:
    """A judge of two nodes, second by second; the ranks of node n are at `places[n]`."""

    def __init__(self, timeout: float | None, pace: float | None, *states: str) -> None:
        self.judge = HangJudge(2, timeout)
        self.pace = pace
        self.places = [(Place(rank, state, "", "train.py:7"),) for rank, state in enumerate(states)]
        self.clock = 1000.0
        self.quiet = 0.0
        self.looks: list[float] = []

    def pass_time(self, seconds: float) -> Failure | None:
        """The first failure within that time."""
        for _ in range(round(seconds)):
            self.clock += 1
            self.quiet += 1
            look = self.judge.look
            for node, places in enumerate(self.places):
                found = {"looked": look, "places": places} if look else {}
                report = Report(node, quiet=self.quiet, pace=self.pace, **found)  # type: ignore[arg-type]
                self.judge.note(report, self.clock)
                failure = self.judge.judge(self.clock)
                if failure:
                    return failure
            if self.judge.look and not look:
                self.looks.append(self.quiet)
        return None

    def sign_of_life(self) -> None:
        self.quiet = -1.0


def test_quick_steps_are_missed_for_a_minute() -> None:
    head = Head(None, 0.1, WAITS, IS)
    failure = head.pass_time(70)
    assert failure
    assert failure.cause.startswith("hang: no step, collective or output for 6")
    assert head.looks == [LEAST]


def test_long_steps_are_missed_for_ten_of_them() -> None:
    head = Head(None, 30.0, WAITS, IS)
    assert head.pass_time(299) is None
    assert head.pass_time(10)


def test_before_the_first_step_there_is_half_an_hour() -> None:
    head = Head(None, None, WAITS, IS)
    assert head.pass_time(PATIENT - 1) is None
    assert head.pass_time(10)


def test_a_rank_that_works_without_steps_is_never_ended() -> None:
    head = Head(None, None, WAITS, WORKS)
    assert head.pass_time(20 * PATIENT) is None
    assert len(head.looks) == 19


def test_a_rank_that_works_gets_half_an_hour_where_steps_are_quick() -> None:
    head = Head(None, 0.1, WAITS, WORKS)
    assert head.pass_time(PATIENT - 1) is None
    assert head.pass_time(LEAST + 10)


def test_one_that_no_longer_works_is_found_at_the_next_look() -> None:
    head = Head(None, 0.1, WAITS, WORKS)
    assert head.pass_time(90) is None
    head.places[1] = (Place(1, IS, "", "train.py:7"),)
    assert head.pass_time(45)


def test_a_sign_of_life_begins_anew_and_its_silence_is_allowed_twice() -> None:
    head = Head(None, 0.1, WAITS, WORKS)
    assert head.pass_time(100) is None
    head.sign_of_life()
    head.places[1] = (Place(1, IS, "", "train.py:7"),)
    assert head.pass_time(190) is None
    assert head.pass_time(20)


def test_what_the_experiment_says_is_taken_at_its_word() -> None:
    assert Head(5.0, 30.0, WAITS, WORKS).pass_time(8)
    assert Head(5.0, None, WAITS, WORKS).pass_time(8)
    assert Head(0.0, 0.1, WAITS, IS).pass_time(10_000) is None


def test_a_node_that_does_not_answer_a_look_is_not_waited_for() -> None:
    judge = HangJudge(2, 5.0)
    failures = []
    for second in range(40):
        for node in (0, 1):
            looked = judge.look if node == 0 else 0
            places = (Place(0, WAITS, "allreduce", "train.py:7"),) if looked else ()
            judge.note(Report(node, quiet=second, looked=looked, places=places), 100.0 + second)
            failures.append(judge.judge(100.0 + second))
    found = [failure for failure in failures if failure]
    assert found[0].cause.endswith(": rank 0 waits in allreduce (train.py:7)")


def test_a_node_whose_ranks_have_ended_is_no_sign_of_life() -> None:
    judge = HangJudge(2, 5.0)
    failure = None
    for second in range(12):
        judge.note(Report(0, quiet=second, looked=judge.look), 100.0 + second)
        ended = Report(1, ended=True, looked=judge.look, places=(Place(1, ENDED),))
        judge.note(ended, 100.0 + second)
        failure = failure or judge.judge(100.0 + second)
    assert failure and failure.cause.endswith("rank 1 has ended")


def test_messages_carry_it() -> None:
    place = Place(3, WAITS, "allreduce", "train.py:41")
    report = Report(1, quiet=2.5, pace=0.25, looked=2, places=(place,), stall="rank 1 is missing")
    assert Report.decode(report.encode()) == report
    assert Order.decode(Order(start=True, look=4).encode()) == Order(start=True, look=4)
    failure = Failure(None, None, "hang", 1.0)
    assert Failure.from_message(failure.message()) == failure
    assert str(failure) == "hang"


@pytest.mark.parametrize(
    ("frames", "place"),
    [
        (
            [
                Frame("/opt/venv/lib/python3.11/site-packages/horovod/torch/mpi_ops.py", 9, "synchronize"),
                Frame("/opt/venv/lib/python3.11/site-packages/horovod/torch/mpi_ops.py", 5, "allreduce"),
                Frame("/workloads/train.py", 41, "train"),
                Frame("/workloads/train.py", 90, "<module>"),
            ],
            Place(0, WAITS, "allreduce", "train.py:41"),
        ),
        (
            [
                Frame("/usr/lib/python3.11/selectors.py", 415, "select"),
                Frame("/x/site-packages/torch/utils/data/dataloader.py", 630, "__next__"),
                Frame("/workloads/train.py", 30, "<module>"),
            ],
            Place(0, IS, "__next__ of dataloader.py", "train.py:30"),
        ),
        ([Frame("/workloads/train.py", 57, "<module>")], Place(0, IS, "", "train.py:57")),
        (
            [Frame("/usr/lib/python3.11/runpy.py", 88, "_run_code")],
            Place(0, IS, "", "runpy.py:88"),
        ),
        ([], Place(0, UNKNOWN)),
    ],
)  # fmt: skip
def test_the_place_is_the_programs_own_line(frames: Sequence[Frame], place: Place) -> None:
    assert place_of(0, frames) == place


def test_those_that_wait_are_named_first_and_equal_ones_together() -> None:
    waiting = [Place(rank, WAITS, "allreduce", "train.py:41") for rank in (0, 1, 2, 5)]
    said = sentence([Place(3, STOPPED), Place(4, IS, "", "train.py:57"), *waiting])
    assert said == (
        "ranks 0-2, 5 wait in allreduce (train.py:41); "
        "rank 3 is stopped (by a signal or a debugger); rank 4 is at train.py:57"
    )
    many = sentence([Place(rank, IS, "", f"train.py:{rank}") for rank in range(9)])
    assert many.endswith("rank 3 is at train.py:3; 5 more places")
    assert sentence([Place(7, UNKNOWN)]) == "rank 7 gave no Python stack"


WARNING = b"""\
[2026-01-02 03:04:05.678: W /build/horovod/common/stall_inspector.cc:107] One or more tensors were \
submitted to be reduced, gathered or broadcasted by subset of ranks and are waiting for remainder of \
ranks for more than 12 seconds. This may indicate ...
Missing ranks:
0: [allreduce.a, allreduce.b ...]
1!: [allreduce.flag]
"""


class Output:
    """Feeds bytes as a rank's output."""

    def __init__(self) -> None:
        self.warnings = StallWarnings()
        self.rest = b""

    def feed(self, data: bytes) -> bool:
        *lines, self.rest = (self.rest + data).split(b"\n")
        return self.warnings.take(data, [line + b"\n" for line in lines], self.rest[:1])


def test_horovods_own_warning_is_no_sign_of_life() -> None:
    for size in (1, 7, 10_000):
        output = Output()
        chunks = [WARNING[n : n + size] for n in range(0, len(WARNING), size)]
        heard = [output.feed(chunk) for chunk in chunks]
        assert not any(heard)
        assert output.warnings.text == (
            "rank 0 has not submitted allreduce.a, allreduce.b ...; "
            "rank 1 has not submitted allreduce.flag"
        )
        assert output.feed(b"epoch 2\n")
    output.warnings.forget()
    assert output.warnings.text == ""


@pytest.mark.parametrize(
    "data", [b"line\n", b"\n", b"37 %|###   |\r", b"...", b"[log] x\n", b"[1]\r"]
)
def test_whatever_else_is_printed_is_one(data: bytes) -> None:
    assert Output().feed(data)


@dataclass
class Rank:
    pid: int
    steps_file: str
    lines_file: str = "none"
    words: int = 0


def test_steps_words_and_files_are_signs_of_life(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(activity, "_CALM", 0.05)
    monkeypatch.setattr(activity, "_EVERY", 0.0)
    writer = [
        PYTHON,
        "-c",
        f"for _ in iter(input, 'end'): open({str(tmp_path / 'x')!r}, 'wb').write(bytes(1 << 21))",
    ]
    with subprocess.Popen(writer, stdin=subprocess.PIPE, text=True) as process:
        assert process.stdin
        records = tmp_path / "rank-0.steps"
        rank = Rank(process.pid, str(records))
        watched = Activity()

        def is_quiet() -> bool:
            time.sleep(0.1)
            watched.look([rank])
            return watched.quiet > 0

        assert is_quiet() and is_quiet()
        assert watched.pace is None
        steps = [step_files.row({"seconds": seconds}) for seconds in (0.5, 1.5, 0.7)]
        step_files.write_rows(records, [step_files.header(), *steps, steps[0][:50]])
        assert not is_quiet()
        assert watched.pace == 0.7
        assert is_quiet()
        rank.words += 1
        assert not is_quiet()
        assert is_quiet() and is_quiet()
        process.stdin.write("\n")
        process.stdin.flush()
        deadline = time.monotonic() + 5
        while is_quiet():
            assert time.monotonic() < deadline
        process.stdin.write("end\n")
    assert (tmp_path / "x").exists()
