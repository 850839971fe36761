"""The file of telemetry, also when the disk is full."""

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from argosy.runtime.agent.telemetry.sampler import TelemetryWriter


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "telemetry-0.jsonl"


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
    journal.close()
    (tmp_path / "none").mkdir()
    journal.write([{"n": 2}])
    loss, sample = lines(tmp_path / "none/telemetry-0.jsonl")
    assert loss["why"].startswith("1 not written: no such file or directory: ")
    assert sample == {"n": 2}


def refuse(descriptor: int, data: bytes) -> int:
    raise OSError(errno.ENOSPC, "No space left on device")
