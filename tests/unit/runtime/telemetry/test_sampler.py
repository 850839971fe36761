"""Sampling in real time with short intervals, sources that fail or hang, and the file."""

import errno
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from argosy.runtime.agent.telemetry.node import OwnCpu
from argosy.runtime.agent.telemetry.sampler import Telemetry, TelemetryWriter, next_beat
from argosy.runtime.agent.telemetry.source import NodeSource, Record, Source, UnreadError

INTERVAL_S = 0.1


class Stuck:
    """A source like GPUs that hangs at its `hangs_at`-th call until `go` is set."""

    name = "gpu"

    def __init__(self, hangs_at: int) -> None:
        self._hangs_at = hangs_at
        self._calls = 0
        self.go = threading.Event()

    def _call(self) -> Sequence[Record]:
        self._calls += 1
        if self._calls == self._hangs_at:
            self.go.wait(30)
        return [{"kind": "gpu", "call": self._calls}]

    def open(self) -> tuple[Record, Sequence[Record]]:
        return {"driver": "999"}, self._call()

    def sample(self) -> Sequence[Record]:
        return self._call()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "telemetry-0.jsonl"


@pytest.fixture
def run(path: Path) -> Iterator[Callable[..., Telemetry]]:
    """Starts telemetry of these sources, and stops it."""
    begun: list[Telemetry] = []

    def begin(*sources: Source, patience_s: float = 5.0) -> Telemetry:
        header = {"kind": "header", "node": 0}
        telemetry = Telemetry(
            TelemetryWriter(str(path)),
            header,
            sources,
            OwnCpu().note,
            interval_s=INTERVAL_S,
            patience_s=patience_s,
        )
        begun.append(telemetry)
        telemetry.begin()
        return telemetry

    yield begin
    for telemetry in begun:
        telemetry.stop()


def numbers(read: Callable[[], float] = lambda: 7.0) -> NodeSource:
    return NodeSource({("number",): lambda: {"number": read()}}, lambda: {"memory_of": "node"})


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def of_kind(path: Path, kind: str) -> list[Any]:
    return [line for line in lines(path) if line["kind"] == kind]


def until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def has(path: Path, kind: str, count: int) -> Callable[[], bool]:
    return lambda: path.exists() and len(of_kind(path, kind)) >= count


def test_the_header_comes_first_with_what_the_sources_say(
    path: Path, run: Callable[..., Telemetry]
) -> None:
    telemetry = run(numbers(), Stuck(hangs_at=0))
    until(has(path, "node", 2))
    telemetry.stop()
    header = lines(path)[0]
    assert abs(header.pop("unix") - time.time()) < 30
    assert header.pop("monotonic") <= of_kind(path, "node")[0]["at"]
    assert header == {
        "kind": "header",
        "node": 0,
        "interval_s": INTERVAL_S,
        "gpus": [],
        "driver": "999",
        "memory_of": "node",
        "unread": {},
    }


def test_samples_keep_to_their_times(path: Path, run: Callable[..., Telemetry]) -> None:
    telemetry = run(numbers(lambda: time.sleep(0.03) or 1.0))
    until(has(path, "node", 11))
    telemetry.stop()
    start = lines(path)[0]["monotonic"]
    beats = [(line["at"] - start) / INTERVAL_S for line in of_kind(path, "node")[:11]]
    # The duration of samples does not add up; a busy machine may miss beats.
    late = sorted(beat % 1 for beat in beats)
    assert late[len(late) // 2] < 0.5
    assert beats == sorted(beats)


def test_missed_beats_are_left_out() -> None:
    assert next_beat(0.0, 1.0) == 1
    assert next_beat(0.999, 1.0) == 1
    assert next_beat(1.0, 1.0) == 2
    assert next_beat(7.3, 1.0) == 8


def test_a_last_sample_is_taken_at_the_end(path: Path, run: Callable[..., Telemetry]) -> None:
    telemetry = run(numbers())
    until(has(path, "node", 1))
    ended = time.monotonic()
    telemetry.stop()
    assert of_kind(path, "node")[-1]["at"] >= ended
    assert not telemetry.is_alive()


def test_a_run_that_ends_at_once_has_its_samples(path: Path, run: Callable[..., Telemetry]) -> None:
    run(numbers()).stop()
    assert lines(path)[0]["kind"] == "header"
    assert of_kind(path, "node")


def test_what_cannot_be_read_at_the_start_is_in_the_header(
    path: Path, run: Callable[..., Telemetry]
) -> None:
    asked = []

    def refuse() -> float:
        asked.append(1)
        raise PermissionError(13, "Permission denied", "/sys/secret")

    telemetry = run(numbers(refuse))
    until(has(path, "node", 3))
    telemetry.stop()
    assert lines(path)[0]["unread"] == {"number": "permission denied: /sys/secret"}
    assert not any("number" in line for line in of_kind(path, "node"))
    assert not of_kind(path, "unread")
    assert len(asked) == 1


def test_what_fails_later_is_named_once_and_tried_again(
    path: Path, run: Callable[..., Telemetry]
) -> None:
    calls = []

    def fail_twice() -> float:
        calls.append(1)
        if len(calls) in (2, 3):
            raise ValueError("nonsense")
        return 7.0

    telemetry = run(numbers(fail_twice))
    until(has(path, "node", 5))
    telemetry.stop()
    assert [line.get("number") for line in of_kind(path, "node")[:5]] == [7, None, None, 7, 7]
    (named,) = of_kind(path, "unread")
    assert (named["what"], named["why"]) == ("number", "nonsense")
    assert lines(path)[0]["unread"] == {}


def test_a_source_that_cannot_begin_is_named_and_the_others_go_on(
    path: Path, run: Callable[..., Telemetry]
) -> None:
    class Absent(Stuck):
        def open(self) -> tuple[Record, Sequence[Record]]:
            raise UnreadError("there is no NVIDIA driver")

    telemetry = run(numbers(), Absent(0))
    until(has(path, "node", 2))
    telemetry.stop()
    assert lines(path)[0]["unread"] == {"gpu": "there is no NVIDIA driver"}
    assert lines(path)[0]["driver"] is None


def test_a_source_that_hangs_from_the_start_is_named_in_the_header(
    path: Path, run: Callable[..., Telemetry]
) -> None:
    stuck = Stuck(hangs_at=1)
    telemetry = run(numbers(), stuck, patience_s=0.3)
    until(has(path, "node", 5))
    stuck.go.set()
    before = len(of_kind(path, "node"))
    until(has(path, "node", before + 3))
    assert stop_time(telemetry) < 0.4
    assert lines(path)[0]["unread"] == {"gpu": "no answer for 0.3 s"}
    # No sample from before the header is lost, and no sample has GPUs that the header lacks.
    assert of_kind(path, "node")[0]["at"] - lines(path)[0]["monotonic"] < 0.3
    assert not of_kind(path, "gpu")


def test_a_source_that_hangs_later_is_named_and_may_come_back(
    path: Path, run: Callable[..., Telemetry]
) -> None:
    stuck = Stuck(hangs_at=3)
    telemetry = run(numbers(), stuck, patience_s=0.3)
    until(has(path, "unread", 1))
    nodes = len(of_kind(path, "node"))
    until(has(path, "node", nodes + 3))
    (named,) = of_kind(path, "unread")
    assert (named["what"], named["why"]) == ("gpu", "no answer for 0.3 s")
    assert [line["call"] for line in of_kind(path, "gpu")] == [1, 2]
    stuck.go.set()
    until(has(path, "gpu", 5))
    telemetry.stop()
    assert len(of_kind(path, "unread")) == 1


def test_what_hangs_hardly_delays_the_end(path: Path, run: Callable[..., Telemetry]) -> None:
    stuck = Stuck(hangs_at=2)
    telemetry = run(numbers(), stuck)
    until(has(path, "node", 3))
    assert stop_time(telemetry) < 1.1
    assert of_kind(path, "unread")[-1]["why"] == "no answer at the end"
    stuck.go.set()


def test_a_disk_that_hangs_hardly_delays_the_end(
    path: Path, run: Callable[..., Telemetry], monkeypatch: pytest.MonkeyPatch
) -> None:
    go = threading.Event()
    with monkeypatch.context() as hanging:
        hanging.setattr(TelemetryWriter, "write", lambda *_: go.wait(30))
        telemetry = run(numbers())
        time.sleep(2 * INTERVAL_S)
        assert stop_time(telemetry) < 1.3
        go.set()
        telemetry.join()


def stop_time(telemetry: Telemetry) -> float:
    before = time.monotonic()
    telemetry.stop()
    return time.monotonic() - before


# ---- the file, also when the disk is full


def test_a_sample_is_written_at_once_and_by_one_call(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: calls.append(1) or write(fd, data))
    journal = TelemetryWriter(str(path))
    journal.begin({"kind": "header"})
    journal.write([{"n": 1}, {"n": 2}])
    assert lines(path) == [{"kind": "header"}, {"n": 1}, {"n": 2}]
    journal.write([{"n": 3}])
    assert lines(path)[3:] == [{"n": 3}]
    assert len(calls) == 2
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_full_disk_costs_samples_and_the_file_says_how_many(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = TelemetryWriter(str(path))
    journal.begin({"kind": "header"})
    with monkeypatch.context() as full:
        full.setattr(os, "write", refuse)
        journal.write([{"n": 1}])
        journal.write([{"n": 2}])
    assert path.read_bytes() == b""
    journal.write([{"n": 3}])
    header, loss, sample = lines(path)
    assert header == {"kind": "header"}
    assert (loss["kind"], loss["what"]) == ("unread", "samples")
    assert loss["why"] == "2 not written: no space left on device"
    assert sample == {"n": 3}
    journal.write([{"n": 4}])
    assert len(lines(path)) == 4


def test_a_disk_that_takes_half_a_sample_keeps_none_of_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = TelemetryWriter(str(path))
    journal.write([{"n": 1}])
    write = os.write
    with monkeypatch.context() as nearly_full:
        nearly_full.setattr(os, "write", lambda fd, data: write(fd, data[:5]))
        journal.write([{"n": 2}])
    assert lines(path) == [{"n": 1}]
    journal.write([{"n": 3}])
    assert [line.get("n") for line in lines(path)] == [1, None, 3]


def test_a_folder_that_is_not_there_fails_nothing(tmp_path: Path) -> None:
    journal = TelemetryWriter(str(tmp_path / "none/telemetry-0.jsonl"))
    journal.write([{"n": 1}])
    (tmp_path / "none").mkdir()
    journal.write([{"n": 2}])
    loss, sample = lines(tmp_path / "none/telemetry-0.jsonl")
    assert loss["why"].startswith("1 not written: no such file or directory: ")
    assert sample == {"n": 2}


def refuse(descriptor: int, data: bytes) -> int:
    raise OSError(errno.ENOSPC, "No space left on device")
