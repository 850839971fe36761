"""Commands with closed output, odd locales and interrupts."""

import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import Argosy

ARGOSY = (sys.executable, "-m", "argosy")
PRINTING = (
    *(("summary",), ("records", "nodes1-ranks2-repeat1"), ("doctor", "--no-job")),
    *(("--help",), ("status", "--json")),
)
"""A command for each way to print: tables, bytes, lines, help, JSON."""

pytestmark = pytest.mark.slow


@pytest.fixture
def project(made_project: Path) -> Path:
    """The project itself, since none of these commands changes it."""
    return made_project


def environment(**more: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("LC_", "LANG", "COLUMNS"))}
    return {**kept, **more}


@pytest.mark.parametrize("command", PRINTING, ids=" ".join)
def test_the_reader_has_seen_enough(project: Path, command: tuple[str, ...]) -> None:
    # The reader is gone before anything is written, so the first write fails.
    script = 'exec 3> >(exec true); sleep 0.5; "$@" >&3'
    done = subprocess.run(
        ["bash", "-c", script, "bash", *ARGOSY, *command],
        cwd=project,
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("command", PRINTING, ids=" ".join)
def test_a_full_disk_behind_the_output_is_said(project: Path, command: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*ARGOSY, *command],
            cwd=project,
            env=environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == 2
    assert re.fullmatch(r"error: .*No space left on device.*\n", done.stderr), done.stderr


@pytest.mark.parametrize("command", PRINTING, ids=" ".join)
def test_output_may_be_closed(project: Path, command: tuple[str, ...]) -> None:
    done = subprocess.run(
        ["bash", "-c", '"$@" >&-', "bash", *ARGOSY, *command],
        cwd=project,
        env=environment(),
        stderr=subprocess.PIPE,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "") or command[0] == "doctor"


@pytest.mark.parametrize("command", PRINTING, ids=" ".join)
@pytest.mark.parametrize(
    "locale",
    [
        {"LC_ALL": "C"},
        {"LC_ALL": "POSIX"},
        {"LANG": "xx"},
        {"LC_ALL": "xx_YY.nothing"},
        {"PYTHONIOENCODING": "ascii"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ],
    ids=str,
)
def test_any_locale_will_do(
    project: Path, command: tuple[str, ...], locale: dict[str, str]
) -> None:
    done = subprocess.run(
        [*ARGOSY, *command], cwd=project, env=environment(**locale), capture_output=True
    )
    assert done.returncode == 0 or command[0] == "doctor"
    assert done.stderr == b""
    assert done.stdout


@pytest.mark.parametrize("command", PRINTING, ids=" ".join)
@pytest.mark.parametrize("columns", [80, 200])
def test_a_terminal_and_a_pipe_show_whole_words(
    project: Path, command: tuple[str, ...], columns: int
) -> None:
    piped = subprocess.run(
        [*ARGOSY, *command], cwd=project, env=environment(), capture_output=True, text=True
    ).stdout
    shown = on_terminal(project, command, columns)
    is_for_programs = command[0] in ("records", "doctor") or "--json" in command
    # Paths are never wrapped.
    lines = shown.replace(str(project), "").splitlines()
    assert max(map(len, lines)) <= columns or is_for_programs
    # A terminal lists runs below their experiment.
    assert words(shown) <= words(piped) | words(piped.replace("/", " ")) | words("just now")


def words(text: str) -> set[str]:
    """Return the words of a text, without numbers and times."""
    return {word for word in text.split() if not re.search(r"\d", word) and set(word) - set("─…")}


def on_terminal(project: Path, command: tuple[str, ...], columns: int) -> str:
    """Return the output of a command in a terminal of `columns` columns."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*ARGOSY, *command],
        cwd=project,
        env=environment(COLUMNS=str(columns), NO_COLOR="1", TERM="dumb"),
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.DEVNULL,
    )
    os.close(theirs)
    parts = []
    while True:
        try:
            part = os.read(ours, 1 << 16)
        except OSError:
            break
        if not part:
            break
        parts.append(part)
    os.close(ours)
    assert process.wait() == 0 or command[0] == "doctor"
    return b"".join(parts).decode().replace("\r\n", "\n")


def test_ctrl_c_is_no_traceback(project: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", WAITING], cwd=project, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    process.stderr.readline()
    process.send_signal(signal.SIGINT)
    said = process.stderr.read()
    assert (process.wait(), said) == (130, "")


WAITING = """
import sys, time
import argosy.site.overview
from argosy.cli import main

def overview(slurm):
    print("waiting", file=sys.stderr, flush=True)
    time.sleep(60)

argosy.site.overview.overview = overview
sys.argv = ["argosy", "site", "list"]
main()
"""


def test_the_folder_may_have_gone(tmp_path: Path) -> None:
    script = 'mkdir "$1/gone" && cd "$1/gone" && rmdir "$1/gone" && shift && "$@"'
    done = subprocess.run(
        ["bash", "-c", script, "bash", tmp_path, *ARGOSY, "status"], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: the current folder: ")


def test_names_in_odd_characters(project: Path, argosy: Argosy) -> None:
    done = argosy("status", "r\udce9sultats/lo\u202ecal\x1b[31m")
    assert done.status == 2
    assert "\x1b" not in done.err and "\u202e" not in done.err
