"""The format of steps in docs/run-folder.md, and its readers."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import step_files
from step_files import header, row

from argosy.runtime.contract.steps import (
    ROW_BYTES,
    Header,
    NoStepsError,
    Step,
    header_of,
    last_steps,
    read_steps,
)

STEP = {
    "step": 7,
    "epoch": 1,
    "samples": 32,
    "start": 1004.25,
    "seconds": 0.125,
    "phases": {"data": 0.0625, "backward": 0.03125},
}


@contextmanager
def opened(path: Path, *parts: bytes) -> Iterator[int]:
    step_files.write_rows(path, parts)
    file = os.open(path, os.O_RDONLY)
    try:
        yield file
    finally:
        os.close(file)


def example(project: Path) -> bytes:
    """Return the bytes of the example in docs/run-folder.md."""
    text = (project / "docs/run-folder.md").read_text()
    lines = re.findall(r"^ *(\d+)  ((?:[0-9a-f]{2} ?){16})$", text, flags=re.MULTILINE)
    assert [int(place) for place, _ in lines] == [*range(0, 2 * ROW_BYTES, 16)]
    return b"".join(bytes.fromhex(digits) for _, digits in lines)


def test_the_example_of_the_page_is_what_is_written_and_read(project: Path, tmp_path: Path) -> None:
    found = example(project)
    whose = header(rank=3, node=1, unix=1_800_000_002.0, monotonic=1003.5)
    assert found == whose + row(STEP)
    assert header_of(found) == Header(3, 1, 1_800_000_002.0, 1003.5)
    with opened(tmp_path / "rank-3.steps", found) as file:
        assert list(read_steps(file)) == [Step(**STEP)]


def test_the_last_steps_are_read_from_the_end(tmp_path: Path) -> None:
    steps = [row({"step": number}) for number in range(5000)]
    steps[4998] = bytes(ROW_BYTES)
    with opened(tmp_path / "rank-0.steps", header(), *steps, steps[0][:50]) as file:
        assert [step.step for step in last_steps(file, 4)] == [4999, 4997, 4996]
        assert len(last_steps(file, 100_000)) == 4999
        everything = list(read_steps(file))
    assert [None if step is None else step.step for step in everything] == [
        *range(4998),
        None,
        4999,
        None,
    ]


@pytest.mark.parametrize("size", [0, 1, ROW_BYTES - 1])
def test_a_file_without_a_whole_header_has_no_steps(tmp_path: Path, size: int) -> None:
    with opened(tmp_path / "rank-0.steps", header()[:size]) as file:
        assert last_steps(file, 10) == []
        assert list(read_steps(file)) == [None] * (size > 0)


def test_a_file_of_something_else_has_no_steps(tmp_path: Path) -> None:
    with opened(tmp_path / "rank-0.steps", b"{}" * 100) as file:
        assert last_steps(file, 10) == []
        with pytest.raises(NoStepsError, match="is not a file of steps"):
            list(read_steps(file))
