"""Commands that run in this process."""

from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import Argosy, Done
from typer.main import get_command

from argosy.cli import app
from argosy.cli.guard import status_of


@pytest.fixture(scope="session")
def command_line() -> Callable[..., object]:
    """All commands, made of their functions once: calling `app` itself makes them anew each time."""
    return get_command(app)


@pytest.fixture
def argosy(
    capsys: pytest.CaptureFixture[str],
    command_line: Callable[..., object],
    monkeypatch: pytest.MonkeyPatch,
) -> Argosy:
    """Run a command in this process, in `folder` or the current one, without a start of Python."""

    def run(*arguments: str, folder: Path | None = None) -> Done:
        if folder:
            monkeypatch.chdir(folder)
        capsys.readouterr()
        status = status_of(
            lambda: command_line(arguments, standalone_mode=False, prog_name="argosy")
        )
        said = capsys.readouterr()
        return Done(status, said.out, said.err)

    return run
