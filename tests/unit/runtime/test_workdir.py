"""Ranks in containers start in a writable folder, and still find the image's own program."""

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from argosy.runtime.agent.processes.launch import workdir

Start = Callable[..., str | None]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Start:
    """Return where a command starts in an image with this WORKDIR, below /app or the root."""
    app = tmp_path / "app"
    (app / "mypkg").mkdir(parents=True)
    for name in ("train.py", "mypkg/fit.py", "run.sh"):
        (app / name).write_text("")
    app.chmod(0o555)
    output = tmp_path / "output"
    output.mkdir()

    def of(
        command: str,
        image: Path | str = app,
        *,
        in_container: bool = True,
        gone: bool = False,
        outputs: tuple[str, ...] | None = None,
    ) -> str | None:
        if gone:
            output.rmdir()
        monkeypatch.chdir(image)
        monkeypatch.setattr(os, "access", lambda path, mode: Path(path).stat().st_mode & 0o200)
        run = SimpleNamespace(command=tuple(command.split("|")), outputs=outputs)
        settings: Any = SimpleNamespace(in_container=in_container, run=run, output=str(output))
        found = workdir(settings)
        return "/job/output" if found == str(output) else found

    return of


@pytest.mark.parametrize(
    "command",
    [
        "python3|/workloads/train.py|--out|runs/x",
        "python3|-m|torch.distributed.run|/workloads/train.py",
        "bash|-c|cd /workloads; python3 other.py",
    ],
)
@pytest.mark.parametrize("image", ["/", None])
def test_it_is_the_run_s_output(start: Start, command: str, image: str | None) -> None:
    assert (start(command, image) if image else start(command)) == "/job/output"


@pytest.mark.parametrize(
    "command",
    [
        "python3|train.py",
        "python3|./train.py|--lr|1",
        "python3|-m|mypkg",
        "python3|-m|mypkg.fit",
        "python3|-m|train",
        "bash|run.sh",
        "bash|-c|exec python3 -u train.py",
    ],
)
def test_an_image_s_own_program_is_found(start: Start, command: str) -> None:
    assert start(command) is None


def test_a_folder_that_can_be_written_to_stays(start: Start, tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    assert start("python3|/workloads/train.py", tmp_path / "scratch") is None


def test_without_a_container_it_is_where_the_agent_starts(start: Start) -> None:
    assert start("python3|train.py", "/", in_container=False) is None
    assert start("python3|train.py", "/", in_container=False, outputs=()) == "/job/output"


def test_a_folder_that_is_not_there_keeps_no_rank_from_its_start(start: Start) -> None:
    assert start("python3|/workloads/train.py", "/", gone=True) is None
