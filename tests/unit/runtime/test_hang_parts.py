"""Signs of life, places of ranks, and their description."""

import os
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest
from agent_job import PYTHON

from argosy.runtime.agent.coordination.failure import Failure, Finished
from argosy.runtime.agent.hangs import node_watch
from argosy.runtime.agent.hangs.node_watch import Activity
from argosy.runtime.agent.hangs.places import (
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
from argosy.runtime.agent.processes.output import LineSplitter, StallWarnings
from argosy.runtime.agent.transport.messages import Order, Report


def test_messages_carry_it() -> None:
    place = Place(3, WAITS, "allreduce", "train.py:41", "0a1b", checked=True)
    left = Finished(1, 2, 1.5)
    report = Report(
        1,
        quiet=2.5,
        pace=0.25,
        looked=2,
        places=(place,),
        stall="rank 1",
        missing=(1,),
        finished=(left,),
    )
    assert Report.decode(report.encode()) == report
    assert Order.decode(Order(start=True, look=4).encode()) == Order(start=True, look=4)
    failure = Failure(None, None, "hang", 1.0)
    assert Failure.read(failure.record()) == failure
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
        (
            [
                Frame("/x/site-packages/torch/distributed/distributed_c10d.py", 9, "all_reduce"),
                Frame("/x/site-packages/torch/distributed/c10d_logger.py", 81, "wrapper"),
                Frame("/workloads/train.py", 6, "<module>"),
            ],
            Place(0, WAITS, "all_reduce", "train.py:6"),
        ),
        (
            [
                Frame("/x/site-packages/torch/distributed/distributed_c10d.py", 9, "_rendezvous_helper"),
                Frame("/x/site-packages/torch/distributed/distributed_c10d.py", 9, "init_process_group"),
                Frame("/x/site-packages/torch/distributed/c10d_logger.py", 81, "wrapper"),
                Frame("/x/site-packages/torch/distributed/c10d_logger.py", 95, "wrapper"),
                Frame("/usr/lib/python3.11/contextlib.py", 81, "inner"),
                Frame("/workloads/train.py", 6, "<module>"),
            ],
            Place(0, WAITS, "init_process_group", "train.py:6"),
        ),
        (
            [
                Frame("/x/site-packages/torch/nn/parallel/distributed.py", 9, "_sync_buffers"),
                Frame("/x/site-packages/torch/nn/parallel/distributed.py", 9, "forward"),
                Frame("/x/site-packages/torch/nn/modules/module.py", 9, "_call_impl"),
                Frame("/workloads/train.py", 6, "<module>"),
            ],
            Place(0, WAITS, "forward of distributed.py", "train.py:6"),
        ),
        (
            [
                Frame("/x/site-packages/horovod/torch/mpi_ops.py", 9, "synchronize"),
                Frame("/x/site-packages/horovod/torch/optimizer.py", 9, "step"),
                Frame("/x/site-packages/torch/optim/lr_scheduler.py", 9, "wrapper"),
                Frame("/workloads/train.py", 6, "<module>"),
            ],
            Place(0, WAITS, "step of optimizer.py", "train.py:6"),
        ),
        (
            [
                Frame("/x/site-packages/jax/_src/distributed.py", 9, "initialize"),
                Frame("/workloads/train.py", 6, "<module>"),
            ],
            Place(0, WAITS, "initialize", "train.py:6"),
        ),
        (
            [
                Frame("/x/site-packages/torch/autograd/graph.py", 9, "_engine_run_backward"),
                Frame("/x/site-packages/torch/_tensor.py", 9, "backward"),
                Frame("/x/site-packages/torch/utils/_contextlib.py", 9, "decorate_context"),
                Frame("/workloads/train.py", 6, "<module>"),
            ],
            Place(0, IS, "backward of _tensor.py", "train.py:6"),
        ),
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
    # A program in C that polls, and one that printed an exception.
    assert (
        sentence([Place(n, WORKS) for n in (0, 1)])
        == "ranks 0-1 were busy and gave no Python stack"
    )
    after = sentence([Place(3, UNKNOWN, where=", after ValueError: x")])
    assert after == "rank 3 gave no Python stack, after ValueError: x"


WARNING = b"""\
[2026-01-02 03:04:05.678: W /build/horovod/common/stall_inspector.cc:107] One or more tensors were \
submitted to be reduced, gathered or broadcasted by subset of ranks and are waiting for remainder of \
ranks for more than 12 seconds. This may indicate ...
Missing ranks:
0: [allreduce.a, allreduce.b ...]
1!: [allreduce.flag]
"""


class Output:
    """Feeds bytes to the detection like a rank's output."""

    def __init__(self) -> None:
        self.warnings = StallWarnings()
        self.splitter = LineSplitter()

    def feed(self, data: bytes) -> bool:
        lines = self.splitter.feed(data.replace(b"\r", b"\n"))
        return self.warnings.take(lines, self.splitter.unfinished)


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
    printed_file: str = "none"
    pump: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(words=0))


def test_steps_words_and_files_are_signs_of_life(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_watch, "_CALM", 0.05)
    monkeypatch.setattr(node_watch, "_EVERY", 0.0)
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
        records.write_bytes(b"header")
        assert not is_quiet()
        assert watched.pace is None
        assert is_quiet()
        records.write_bytes(b"header, and a row")
        assert not is_quiet()
        assert watched.pace and watched.pace >= 0.2
        assert is_quiet()
        rank.pump.words += 1
        assert not is_quiet()
        assert is_quiet() and is_quiet()
        process.stdin.write("\n")
        process.stdin.flush()
        deadline = time.monotonic() + 5
        while is_quiet():
            assert time.monotonic() < deadline
        process.stdin.write("end\n")
    assert (tmp_path / "x").exists()


def test_counters_of_a_silent_rank_are_read_every_few_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, read = [1000.0], set()
    monkeypatch.setattr(node_watch, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(node_watch, "bytes_moved", lambda pid: read.add(clock[0]) or 0)
    watched = Activity()
    for _ in range(40):
        clock[0] += 1
        watched.look([Rank(os.getpid(), "none")])
    assert sorted(read) == [1016, 1022, 1028, 1034, 1040]
